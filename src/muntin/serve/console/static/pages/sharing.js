// Sharing: the server's drawing of which queries read which structures over which stores, brought to life.

import { get } from '../api.js'
import { fill, h, head, rowsTable, trouble } from '../dom.js'
import { bytes, count, nanoseconds } from '../format.js'

export default async function sharing(body, _, signal) {
  const picture = h('div', { class: 'picture' })
  const tables = h('div', { class: 'stack' })
  const refresh = h('button', { type: 'button', onclick: load }, 'Refresh')
  fill(body, head('Sharing', 'A query is a look-up into a synopsis that many queries share. Point at a box to see what it is connected with.', refresh),
    h('section', { class: 'card' }, picture), tables)
  await load()

  async function load() {
    try {
      await drawing(picture, '', signal)
      const told = await get('sharing', { signal })
      fill(tables,
        h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', {}, 'Stores')),
          rowsTable(told.stores.sort((a, b) => b.bytes - a.bytes).map(each => ({ store: each.title, stream: each.stream || '–', 'read by': each.readers, bytes: bytes(each.bytes), 'per event': nanoseconds(each.update_ns), holds: each.state })))),
        h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', {}, 'Groups'), h('span', { class: 'soft' }, count(told.groups.length))),
          rowsTable(told.groups.sort((a, b) => b.queries - a.queries).map(each => ({ group: each.id, structure: each.structure, because: each.because, queries: each.queries, windows: each.windows.length, 'of its own': bytes(each.bytes), 'per event': nanoseconds(each.update_ns) })))))
    } catch (error) {
      if (!signal.aborted) fill(picture, trouble(error))
    }
  }
}

/** Put the drawing into a host. What comes is parsed as an image, so nothing in it can run. */
export async function drawing(host, search, signal) {
  const text = await get(`sharing.svg${search}${search ? '&' : '?'}style=false`, { signal })
  const svg = document.importNode(new DOMParser().parseFromString(text, 'image/svg+xml').documentElement, true)
  fill(host, svg)
  const nodes = [...svg.querySelectorAll('[data-node]')]
  const ribbons = [...svg.querySelectorAll('[data-from]')]
  for (const node of nodes) {
    node.setAttribute('tabindex', '0')
    for (const event of ['pointerenter', 'focus']) node.addEventListener(event, () => light(node.dataset.node))
    for (const event of ['pointerleave', 'blur']) node.addEventListener(event, () => light(null))
  }

  /** A box, and all that leads to it or away from it, stands out. */
  function light(name) {
    svg.classList.toggle('is-lit', name !== null)
    const lit = new Set(name === null ? [] : [...reached(name, 'from', 'to'), ...reached(name, 'to', 'from')])
    for (const node of nodes) node.classList.toggle('lit', lit.has(node.dataset.node))
    for (const ribbon of ribbons) ribbon.classList.toggle('lit', lit.has(ribbon.dataset.from) && lit.has(ribbon.dataset.to))
  }

  function reached(name, here, there) {
    const found = new Set([name])
    for (const each of found) for (const ribbon of ribbons) if (ribbon.dataset[here] === each) found.add(ribbon.dataset[there])
    return found
  }
}
