// Streams, and where their events come from and their answers go.

import { get, poll } from '../api.js'
import { cell, empty, fill, h, head, rowsTable, trouble } from '../dom.js'
import { bytes, count } from '../format.js'

export default async function streams(body, _, signal) {
  const host = h('div', { class: 'stack' })
  const sources = h('section', { class: 'card' })
  const sinks = h('section', { class: 'card' })
  fill(body, head('Streams', 'Events come in by HTTP, and from sources; answers go out to those who follow, and to sinks'), host, sources, sinks)
  const missing = new Set() // addresses that this server does not have
  await poll(async () => {
    try {
      fill(host, (await get('streams', { signal })).map(card))
      await Promise.all([listed(sources, 'sources', 'Sources', 'Streams without a source take events by POST /streams.', missing, signal), listed(sinks, 'sinks', 'Sinks', 'Answers can be followed at GET /answers.', missing, signal)])
    } catch (error) {
      if (!signal.aborted) fill(host, trouble(error))
    }
  }, 3000, signal)
}

function card(stream) {
  return h('section', { class: 'card' },
    h('div', { class: 'card-head' }, h('h2', {}, stream.name), h('span', { class: 'soft' }, `time is ${stream.time}`)),
    h('dl', { class: 'facts' }, [['Events', count(stream.events)], ['Late', count(stream.late)], ['Ahead', count(stream.ahead)], ['Watermark', cell(stream.watermark)], ['State', bytes(stream.bytes)]].map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)))),
    h('p', { class: 'columns' }, Object.entries(stream.columns).map(([column, type]) => h('span', { class: 'pair' }, column, ' ', h('span', { class: 'soft' }, type)))))
}

/** What the server tells of sources or sinks: a list of objects, or objects by name; a server may have neither. */
async function listed(host, address, title, none, missing, signal) {
  let told = null
  try {
    if (!missing.has(address)) told = await get(address, { signal })
  } catch (error) {
    if (error.status !== 404) throw error
    missing.add(address)
  }
  const inner = told && !Array.isArray(told) && typeof told === 'object' ? told[address] ?? told : told
  const rows = Array.isArray(inner) ? inner : Object.entries(inner ?? {}).map(([name, each]) => ({ name, ...(typeof each === 'object' ? each : { value: each }) }))
  const columns = [...new Set(rows.flatMap(each => Object.keys(each)))]
  fill(host, h('div', { class: 'card-head' }, h('h2', {}, title)), rows.length ? rowsTable(rows, columns) : empty(`No ${address}`, none))
}
