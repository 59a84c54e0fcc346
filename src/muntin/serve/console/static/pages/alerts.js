// Alerts: answers of all queries as they come, the newest first.

import { follow, get, path } from '../api.js'
import { cell, empty, fill, h, head } from '../dom.js'
import { clock, plural } from '../format.js'

const KEPT = 400
const SHOWN = 120
const OWN = new Set(['query', 'id', 'window_start', 'window_end', 'complete', 'change'])

export default async function alerts(body, _, signal) {
  const filter = h('input', { type: 'search', placeholder: 'Only queries whose name has …', 'aria-label': 'Filter by name', autocomplete: 'off' })
  const only = h('select', { 'aria-label': 'Kind' }, h('option', { value: '' }, 'All answers'), h('option', { value: 'change' }, 'Who enters and leaves'))
  const pause = h('button', { type: 'button', 'aria-pressed': 'false' }, 'Pause')
  const state = h('span', { class: 'badge' }, 'connecting')
  const told = h('span', { class: 'soft', role: 'status' })
  const list = h('ol', { class: 'feed', 'aria-label': 'Answers' })
  fill(body, head('Alerts', 'Closed windows, and with EMIT CHANGES who enters and who leaves', state, pause),
    h('div', { class: 'bar' }, filter, only, told), h('section', { class: 'card flush' }, list))

  let rows = []
  let seen = 0
  let isPaused = false
  let frame = 0

  function take(row) {
    rows.push(row)
    seen++
    if (rows.length > 2 * KEPT) rows = rows.slice(-KEPT)
    if (isPaused) return
    cancelAnimationFrame(frame)
    frame = requestAnimationFrame(draw)
  }

  function draw() {
    const word = filter.value.toLowerCase()
    const shown = rows.filter(each => each.query.toLowerCase().includes(word) && (!only.value || each.change)).slice(-SHOWN).reverse()
    fill(told, `${plural(seen, 'answer', 'answers')} seen`)
    fill(list, shown.length ? shown.map(item) : h('li', {}, empty('Nothing has come yet', 'Answers appear here when windows close.')))
  }

  filter.addEventListener('input', draw)
  only.addEventListener('change', draw)
  pause.addEventListener('click', () => {
    isPaused = !isPaused
    pause.setAttribute('aria-pressed', String(isPaused))
    fill(pause, isPaused ? 'Go on' : 'Pause')
    if (!isPaused) draw()
  })
  draw()
  get('answers/latest?limit=100', { signal }).then(found => found.forEach(take), () => {})
  await follow('answers', {
    signal, onAnswer: take,
    onState: now => { state.className = `badge ${now === 'live' ? 'good' : 'warn'}`; fill(state, { live: 'live', waiting: 'connecting again', behind: 'this page is too slow', gone: 'not allowed' }[now]) },
  })
}

function item(row) {
  const values = Object.entries(row).filter(([name]) => !OWN.has(name))
  const kind = row.change === 'enter' ? 'enters' : row.change === 'leave' ? 'leaves' : null
  return h('li', {},
    h('time', { class: 'num soft' }, clock(row.window_end)),
    h('a', { href: `#/queries/${path(row.query)}` }, row.query),
    h('span', { class: 'values' }, kind ? h('span', { class: `badge ${row.change}` }, kind) : null,
      values.map(([name, value]) => h('span', { class: 'pair' }, h('span', { class: 'soft' }, name), ' ', cell(value)))),
    h('span', { class: 'faint code' }, row.id))
}
