// Queries: searched by the server, of ten thousand only those in view are in the page.

import { get, path, poll } from '../api.js'
import { sparkline } from '../chart.js'
import { empty, fill, h, head, trouble } from '../dom.js'
import { bytes, nanoseconds, plural, short } from '../format.js'

const PAGE = 100
const ROW = 52 // pixels
const BEYOND = 8 // rows drawn above and below what is seen

export default async function queries(body, _, signal) {
  const search = h('input', { type: 'search', id: 'search', placeholder: 'Search names and texts', 'aria-label': 'Search queries', autocomplete: 'off', spellcheck: 'false' })
  const sort = h('select', { 'aria-label': 'Order' }, [['registered', 'As registered'], ['name', 'By name'], ['answers', 'Most answers'], ['bytes', 'Most bytes'], ['update_ns', 'Most time']].map(([value, title]) => h('option', { value }, title)))
  const found = h('p', { class: 'soft', role: 'status' })
  const spacer = h('div', { class: 'rows-space' })
  const view = h('div', { class: 'rows', tabindex: '0', role: 'region', 'aria-label': 'Queries' }, spacer)
  const message = h('div')
  fill(body, head('Queries', null, h('a', { class: 'button primary', href: '#/editor' }, 'New query')),
    h('div', { class: 'bar' }, search, sort, found), message,
    h('div', { class: 'card flush' },
      h('div', { class: 'row row-head' }, ['Query', 'Answers', 'Last minutes', 'Share of state', 'Time per event', 'Groups'].map((each, number) => h('span', { class: `c${number}` }, each))), view))

  let pages = new Map()
  let total = 0
  let asked = 0

  async function load(number, isAgain = false) {
    if (!isAgain && pages.has(number)) return
    if (!pages.has(number)) pages.set(number, null)
    const round = asked
    const told = await get(`queries?search=${encodeURIComponent(search.value)}&sort=${sort.value}&offset=${number * PAGE}&limit=${PAGE}`, { signal })
    if (round !== asked) return // something else is searched for by now
    pages.set(number, told.queries)
    total = told.total
    draw()
  }

  function range() {
    const first = Math.max(0, Math.floor(view.scrollTop / ROW) - BEYOND)
    return [first, Math.min(total, first + Math.ceil(view.clientHeight / ROW) + 2 * BEYOND)]
  }

  function draw() {
    fill(found, plural(total, 'query', 'queries'))
    spacer.style.height = `${total * ROW}px`
    view.hidden = total === 0
    fill(message, total ? null : search.value
      ? empty('No query is like that', `No name and no text has “${search.value}” in it.`)
      : empty('There are no queries yet', 'Register one, and it answers at once from what is kept for others.', h('a', { class: 'button primary', href: '#/editor' }, 'Write a query')))
    const [first, last] = range()
    const rows = []
    for (let number = first; number < last; number++) rows.push(row(pages.get(Math.floor(number / PAGE))?.[number % PAGE], number))
    fill(spacer, rows)
  }

  function need() {
    const [first, last] = range()
    draw()
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page++) load(page).catch(fail)
  }

  function fail(error) {
    if (!signal.aborted) fill(message, trouble(error))
  }

  function again() {
    asked++
    pages = new Map()
    view.scrollTop = 0
    load(0).catch(fail)
  }

  let timer = 0
  search.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(again, 150) })
  sort.addEventListener('change', again)
  let frame = 0
  view.addEventListener('scroll', () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(need) })
  window.addEventListener('resize', need, { signal })
  await load(0)
  await poll(async () => {
    const [first] = range()
    await load(Math.floor(first / PAGE), true).catch(fail)
  }, 3000, signal)
}

function row(query, number) {
  const made = h('div', { class: 'row' })
  made.style.transform = `translateY(${number * ROW}px)`
  if (!query) return made
  const { cost } = query
  fill(made,
    h('a', { class: 'c0', href: `#/queries/${path(query.name)}`, title: query.sql }, h('strong', {}, query.name), h('span', { class: 'soft code' }, query.sql.replace(/\s+/g, ' '))),
    h('span', { class: 'c1 num' }, short(query.answers)),
    h('span', { class: 'c2' }, sparkline(query.recent)),
    h('span', { class: 'c3 num' }, bytes(cost.bytes), h('small', {}, `of ${bytes(cost.shared_bytes)}`)),
    h('span', { class: 'c4 num' }, nanoseconds(cost.update_ns)),
    h('span', { class: 'c5 num' }, short(cost.groups.length)))
  return made
}
