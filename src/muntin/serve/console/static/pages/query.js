// One query: its text, what it costs, its answers as they come, look-ups, and what it shares with others.

import { call, follow, get, path, poll } from '../api.js'
import { chart, COLOURS } from '../chart.js'
import { ask, cell, empty, fill, h, head, highlighted, rowsTable, toast, trouble } from '../dom.js'
import { bytes, count, nanoseconds, plural, short } from '../format.js'
import { drawing } from './sharing.js'

const ROWS = 60 // of answers shown
const INSTANTS = 240 // of the chart
const LINES = 6 // keys of the chart
const OWN = new Set(['window_start', 'window_end', 'complete', 'change', 'id', 'query'])

export default async function query(body, [name], signal) {
  const told = await get(path('queries', name), { signal })
  const facts = h('div', { class: 'tiles small' })
  const drop = h('button', { type: 'button', class: 'danger', onclick: remove }, 'Drop')
  fill(body,
    head(name, null, h('a', { class: 'button', href: `#/editor/${path(name)}` }, 'Edit'), drop),
    facts,
    h('section', { class: 'card' }, h('pre', { class: 'sql' }, highlighted(told.sql))))
  draw(told)
  live(body, told, signal)
  if (told.keys.length) lookups(body, told, signal)
  const picture = h('div', { class: 'picture' })
  body.append(h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', {}, 'What it shares')), picture),
    h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', {}, 'Plan'), h('span', { class: 'soft' }, 'as EXPLAIN has it')), h('pre', { class: 'plan' }, told.plan)))
  drawing(picture, `?query=${encodeURIComponent(name)}`, signal).catch(error => { if (!signal.aborted) fill(picture, trouble(error)) })
  await poll(async () => {
    try {
      draw(await get(`${path('queries', name)}?plan=false`, { signal }))
    } catch (error) {
      if (!signal.aborted && error.status === 404) fill(facts, trouble(error))
    }
  }, 3000, signal)

  function draw({ answers, cost, state }) {
    fill(facts,
      fact('Answers', short(answers), state.missed ? `${count(state.missed)} missed` : 'given out'),
      fact('Share of state', bytes(cost.bytes), `of ${bytes(cost.shared_bytes)} in ${plural(cost.stores.length, 'store', 'stores')}`),
      fact('Time per event', nanoseconds(cost.update_ns), 'its share'),
      fact('Look-up', cost.lookup_us === null ? '–' : nanoseconds(cost.lookup_us * 1000), 'of a window'),
      fact('Windows', state.complete ? 'complete' : 'not complete', state.complete ? 'all of them are covered' : state.complete_from ? `complete from ${cell(state.complete_from)}` : 'until enough events have come', !state.complete && 'warn'))
  }

  async function remove() {
    if (!await ask(`Drop ${name}?`, 'No other query’s answer changes. What only this one needed is freed.', 'Drop it')) return
    try {
      await call('DELETE', path('queries', name))
      toast(`${name} is dropped.`)
      location.hash = '#/queries'
    } catch (error) { toast(error.message, true) }
  }
}

function fact(title, value, note, kind) {
  return h('div', { class: `tile ${kind || ''}` }, h('span', { class: 'tile-title' }, title), h('span', { class: 'tile-value' }, value), h('span', { class: 'tile-note' }, note))
}

// -- answers as they come --------------------------------------------------------------------------

function live(body, told, signal) {
  const isNumber = type => /int|double|float|decimal/.test(type)
  const measures = Object.keys(told.columns).filter(each => isNumber(told.columns[each]) && !told.keys.includes(each) && !OWN.has(each) && !each.endsWith('_error'))
  const measure = h('select', { 'aria-label': 'Column of the chart' }, measures.map(each => h('option', { value: each }, each)))
  const state = h('span', { class: 'badge' }, 'connecting')
  const legend = h('div', { class: 'legend' })
  const host = h('div', { class: 'plot' })
  const strip = h('div', { class: 'plot' })
  const stripNote = h('p', { class: 'soft small', hidden: true }, 'How far the rank of the answer may be from the one that was asked for, as a part of all values:')
  const table = h('div', {}, empty('No answer yet', told.slide ? 'The next one comes when a window closes.' : 'It answers when it is looked up.'))
  body.append(h('section', { class: 'card', id: 'answers' },
    h('div', { class: 'card-head' }, h('h2', {}, 'Answers'), state, h('span', { class: 'push' }), measures.length > 1 ? measure : null), legend, host, stripNote, strip, table))
  const plot = measures.length ? chart(host, { format: short, height: 210, isFromZero: false, label: 'answers', signal }) : null
  const errors = chart(strip, { format: value => `${(value * 100).toFixed(2)} %`, height: 90, label: 'error', signal })
  const rows = []
  let frame = 0

  function take(row) {
    rows.push(row)
    if (rows.length > INSTANTS * 20) rows.splice(0, rows.length - INSTANTS * 16)
    cancelAnimationFrame(frame)
    frame = requestAnimationFrame(show)
  }

  function show() {
    const newest = rows.slice(-ROWS).reverse()
    const columns = Object.keys(newest[0]).filter(each => each !== 'query' && each !== 'id')
    fill(table, rowsTable(newest, columns))
    if (plot) lines()
  }

  function lines() {
    const column = measure.value
    const hasError = `${column}_error` in told.columns
    const isCount = hasError && /int/.test(told.columns[`${column}_error`])
    const keyOf = row => told.keys.map(each => String(row[each])).join(' · ')
    const series = new Map()
    const instants = new Set()
    for (const row of rows) {
      const at = Date.parse(row.window_end) / 1000
      if (!Number.isFinite(at) || row.change === 'leave') continue
      instants.add(at)
      const key = keyOf(row)
      if (!series.has(key)) series.set(key, new Map())
      series.get(key).set(at, row)
    }
    const shownAt = [...instants].sort((a, b) => a - b).slice(-INSTANTS)
    const last = each => { const found = each[1].get(Math.max(...each[1].keys())); return Number(found[column]) || 0 }
    const chosen = [...series].sort((a, b) => last(b) - last(a)).slice(0, LINES)
    const value = (row, of) => row && typeof row[of] === 'number' ? row[of] : null
    const shown = []
    const data = [shownAt]
    chosen.forEach(([key, points], number) => {
      shown.push({ label: key || column, colour: COLOURS[number % COLOURS.length], isFilled: false })
      data.push(shownAt.map(at => value(points.get(at), column)))
    })
    if (isCount) {
      chosen.forEach(([key, points], number) => {
        shown.push({ label: `${key} at most`, colour: COLOURS[number % COLOURS.length], upTo: number })
        data.push(shownAt.map(at => { const row = points.get(at); const low = value(row, column); return low === null ? null : low + (value(row, `${column}_error`) ?? 0) }))
      })
    }
    plot.set(shown, data)
    const note = isCount ? 'Shaded: what the true count may be at most' : chosen.length < series.size ? `the ${LINES} highest of ${count(series.size)} keys` : ''
    fill(legend, chosen.map(([key], number) => { const item = h('span', { class: 'key' }, key || column); item.style.setProperty('--dot', `var(${COLOURS[number % COLOURS.length]})`); return item }), h('span', { class: 'soft' }, note))
    const isRank = hasError && !isCount
    stripNote.hidden = strip.hidden = !isRank
    if (isRank) errors.set(chosen.map(([key], number) => ({ label: key || column, colour: COLOURS[number % COLOURS.length] })), [shownAt, ...chosen.map(([, points]) => shownAt.map(at => value(points.get(at), `${column}_error`)))])
  }

  strip.hidden = true
  measure.addEventListener('change', () => rows.length && show())
  if (told.slide || /\bROWS\b[^\]]*\bSLIDE\b/i.test(told.sql)) {
    get(`answers/latest?query=${encodeURIComponent(told.name)}&limit=600`, { signal }).then(found => found.forEach(take), () => {})
    follow(`answers?query=${encodeURIComponent(told.name)}`, { signal, onAnswer: take, onState: say })
  } else {
    watch()
  }

  function say(now) {
    state.className = `badge ${now === 'live' ? 'good' : 'warn'}`
    fill(state, { live: 'live', waiting: 'connecting again', behind: 'this page is too slow', gone: 'dropped' }[now])
  }

  /** A query that has no instants of its own is looked up again and again. */
  async function watch() {
    const stop = new AbortController()
    signal.addEventListener('abort', () => stop.abort())
    await poll(async () => {
      try {
        const found = await get(`${path('queries', told.name)}/answer`, { signal })
        state.className = 'badge good'
        fill(state, 'looked up every 2 s')
        found.slice(0, 1000).forEach(take)
        if (found.length > 2000) { stop.abort(); fill(state, 'looked up once: it has many rows') }
      } catch (error) {
        if (!signal.aborted) fill(table, trouble(error))
      }
    }, 2000, stop.signal)
  }
}

// -- looking a key up ------------------------------------------------------------------------------

function lookups(body, told, signal) {
  const inputs = told.keys.map(each => h('input', { type: 'text', id: `key-${each}`, required: true, autocomplete: 'off', spellcheck: 'false' }))
  const at = h('input', { type: 'text', id: 'at', placeholder: 'now', autocomplete: 'off' })
  const found = h('div', { id: 'found', 'aria-live': 'polite' })
  const form = h('form', { class: 'bar' },
    told.keys.map((each, number) => h('label', {}, each, inputs[number])), h('label', {}, 'at', at), h('button', { type: 'submit', class: 'primary' }, 'Look up'))
  form.addEventListener('submit', async event => {
    event.preventDefault()
    const parts = inputs.map((each, number) => typed(each.value, told.columns[told.keys[number]]))
    const key = encodeURIComponent(JSON.stringify(parts.length === 1 ? parts[0] : parts))
    const when = at.value.trim() ? `&at=${encodeURIComponent(at.value.trim())}` : ''
    try {
      const rows = await get(`${path('queries', told.name)}/answer?key=${key}${when}`, { signal })
      fill(found, rows.length ? rowsTable(rows) : empty('No row', 'This key has no answer: it has no events in the window, or does not pass HAVING.'))
    } catch (error) { fill(found, trouble(error)) }
  })
  body.append(h('section', { class: 'card', id: 'lookup' }, h('div', { class: 'card-head' }, h('h2', {}, 'Look up a key')), form, found))
}

function typed(text, type) {
  if (/int/.test(type ?? '') && /^-?\d{1,15}$/.test(text.trim())) return Number(text)
  if (/double|float/.test(type ?? '') && text.trim() && Number.isFinite(Number(text))) return Number(text)
  if (type === 'bool') return text.trim().toLowerCase() === 'true'
  return text
}
