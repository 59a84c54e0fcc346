// Tables and rules: rows that queries join, shown, inserted and deleted.

import { call, get, path } from '../api.js'
import { ask, empty, fill, h, head, rowsTable, toast, trouble } from '../dom.js'
import { bytes, count, plural } from '../format.js'

const PAGE = 100

export default async function tables(body, [given], signal) {
  const found = await get('tables', { signal })
  fill(body, head('Tables', 'Each row may be a rule of its own: a limit, a threshold, a window'))
  if (!found.length) {
    body.append(h('section', { class: 'card' }, empty('There are no tables', 'CREATE TABLE in the script of the server, or by POST /execute, makes one.')))
    return
  }
  const shown = found.find(each => each.name === given) ?? found[0]
  body.append(h('div', { class: 'tabs', role: 'navigation', 'aria-label': 'Tables' }, found.map(each => h('a', { href: `#/tables/${path(each.name)}`, 'aria-current': each === shown ? 'page' : null }, each.name, ' ', h('span', { class: 'soft' }, count(each.rows))))))
  const host = h('section', { class: 'card' })
  const problem = h('div')
  body.append(form(shown, problem, load), problem, host)
  let offset = 0
  await load()

  async function load() {
    const told = await get(`${path('tables', shown.name)}?offset=${offset}&limit=${PAGE}`, { signal })
    const last = Math.min(offset + PAGE, told.total)
    fill(host,
      h('div', { class: 'card-head' }, h('h2', {}, shown.name), h('span', { class: 'soft' }, `${plural(told.total, 'row', 'rows')}, ${bytes(shown.bytes)}`), h('span', { class: 'push' }),
        told.total > PAGE ? [h('span', { class: 'soft' }, `${count(offset + 1)} to ${count(last)}`), h('button', { type: 'button', disabled: offset === 0, onclick: () => turn(-PAGE) }, 'Back'), h('button', { type: 'button', disabled: last >= told.total, onclick: () => turn(PAGE) }, 'On')] : null),
      told.rows.length ? rowsTable(told.rows, Object.keys(shown.columns), row => h('button', { type: 'button', class: 'quiet', 'aria-label': `Delete the row ${shown.key.map(each => row[each]).join(', ')}`, onclick: () => remove(row) }, 'Delete'))
        : empty('No rows', 'Insert one above, or load many with POST /tables.'))
  }

  function turn(by) {
    offset = Math.max(0, offset + by)
    load().catch(error => fill(problem, trouble(error)))
  }

  async function remove(row) {
    const where = shown.key.map(each => `${quoted(each)} = ${literal(row[each], shown.columns[each])}`).join(' AND ')
    if (!await ask('Delete this row?', shown.key.map(each => `${each} ${row[each]}`).join(', '), 'Delete it')) return
    try {
      await call('POST', 'execute', { sql: `DELETE FROM ${quoted(shown.name)} WHERE ${where}` })
      toast('The row is deleted.')
      await load()
    } catch (error) { fill(problem, trouble(error)) }
  }
}

function form(table, problem, load) {
  const inputs = Object.entries(table.columns).map(([name, type]) => [name, type, h('input', { type: 'text', placeholder: type, required: table.key.includes(name), autocomplete: 'off', spellcheck: 'false' })])
  const made = h('form', { class: 'card bar' }, inputs.map(([name, , input]) => h('label', {}, table.key.includes(name) ? `${name} (key)` : name, input)), h('button', { type: 'submit', class: 'primary' }, 'Insert'))
  made.addEventListener('submit', async event => {
    event.preventDefault()
    const row = Object.fromEntries(inputs.map(([name, type, input]) => [name, typed(input.value, type)]))
    try {
      await call('POST', path('tables', table.name), [row])
      fill(problem)
      made.reset()
      toast('The row is in the table.')
      await load()
    } catch (error) { fill(problem, trouble(error)) }
  })
  return made
}

function typed(text, type) {
  if (text.trim() === '') return null
  if (/int|double|float/.test(type) && Number.isFinite(Number(text))) return Number(text)
  if (type === 'bool') return text.trim().toLowerCase() === 'true'
  return text
}

const quoted = name => `"${name.replaceAll('"', '""')}"`

function literal(value, type) {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  const text = `'${String(value).replaceAll("'", "''")}'`
  return /timestamp/.test(type) ? `TIMESTAMP ${text.replace('T', ' ').replace('Z', '')}` : /date/.test(type) ? `DATE ${text}` : text
}
