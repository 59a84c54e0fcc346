// Overview: how much comes in and goes out, what it takes, and what is behind.

import { get, poll } from '../api.js'
import { chart, COLOURS } from '../chart.js'
import { empty, fill, h, head, trouble } from '../dom.js'
import { bytes, count, plural, seconds, short } from '../format.js'

const KEPT = 900 // seconds
const BEHIND = 60 // seconds of lag that are worth a word

export default async function overview(body, _, signal) {
  const tiles = h('div', { class: 'tiles' })
  const behind = h('section', { class: 'card' })
  const problem = h('div')
  const plots = {}
  const panel = (name, title, note) => {
    const host = h('div', { class: 'plot' })
    plots[name] = [host]
    return h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', {}, title), h('span', { class: 'soft', id: `note-${name}` }, note)), host)
  }
  const panels = h('div', { class: 'grid two' },
    panel('events', 'Events per second', 'by stream'), panel('answers', 'Answers per second', 'rows given out'),
    panel('memory', 'Memory', 'process, and state of the queries'), panel('lag', 'Lag', 'clock on the wall, less the watermark'))
  fill(body, head('Overview', 'The last quarter of an hour'), problem, tiles, panels, behind)
  const formats = { events: short, answers: short, memory: bytes, lag: seconds }
  for (const [name, [host]] of Object.entries(plots)) plots[name] = chart(host, { format: formats[name], isBinary: name === 'memory', label: name, signal })

  let samples = []
  await poll(async () => {
    try {
      const told = await get(`overview?since=${samples.at(-1)?.at ?? 0}`, { signal })
      samples = [...samples, ...told.samples].filter(each => each.at > told.samples.at(-1).at - KEPT)
      fill(problem)
      draw()
    } catch (error) {
      if (!signal.aborted) fill(problem, trouble(error))
    }
  }, 2000, signal)

  function draw() {
    const last = samples.at(-1)
    const streams = Object.keys(last.streams)
    const total = (sample, name) => Object.values(sample.streams).reduce((sum, each) => sum + each[name], 0)
    const at = samples.map(each => each.at)
    const rates = of => samples.map((each, number) => rate(samples, number, of))
    const perStream = streams.map(name => rates(sample => sample.streams[name]?.events ?? 0))
    const answers = rates(sample => sample.answers)
    const lines = streams.map((name, number) => ({ label: name, colour: COLOURS[number % COLOURS.length], isFilled: streams.length === 1 }))
    plots.events.set(lines, [at, ...perStream])
    plots.answers.set([{ label: 'answers', colour: '--c1', isFilled: true }], [at, answers])
    plots.memory.set([{ label: 'process', colour: '--c3' }, { label: 'state', colour: '--c0', isFilled: true }], [at, samples.map(each => each.memory), samples.map(each => total(each, 'bytes') + each.joins_bytes)])
    plots.lag.set(lines, [at, ...streams.map(name => samples.map(each => each.streams[name]?.lag ?? null))])
    const events = perStream.reduce((sum, each) => sum + (each.at(-1) ?? 0), 0)
    const late = total(last, 'late')
    const lag = Math.max(...Object.values(last.streams).map(each => each.lag ?? 0), 0)
    fill(tiles,
      tile('Events', `${short(events)}/s`, `${count(total(last, 'events'))} so far`),
      tile('Answers', `${short(answers.at(-1) ?? 0)}/s`, `${short(last.answers)} since the start`),
      tile('Lag', seconds(lag), lag > BEHIND ? 'behind the clock on the wall' : 'behind the clock', lag > BEHIND && 'warn'),
      tile('Late', count(late), late ? 'events left out' : 'none left out', late > 0 && 'warn'),
      tile('Memory', bytes(last.memory), `${bytes(total(last, 'bytes') + last.joins_bytes)} of state`),
      tile('Queries', count(last.queries), `in ${plural(total(last, 'groups'), 'group', 'groups')}`, null, '#/queries'))
    fill(behind, h('div', { class: 'card-head' }, h('h2', {}, 'What is behind')), troubles(last))
  }
}

/** Per second, over the last samples: a single one would jump. */
function rate(samples, number, of) {
  const from = Math.max(0, number - 2)
  const passed = samples[number].at - samples[from].at
  return passed > 0 ? Math.max(0, of(samples[number]) - of(samples[from])) / passed : null
}

function tile(title, value, note, kind, link) {
  const inner = [h('span', { class: 'tile-title' }, title), h('span', { class: 'tile-value' }, value), h('span', { class: 'tile-note' }, note)]
  return link ? h('a', { class: `tile ${kind || ''}`, href: link }, inner) : h('div', { class: `tile ${kind || ''}` }, inner)
}

function troubles(last) {
  const found = []
  if (!last.ready) found.push(['bad', 'The writer has stopped', 'No more changes are taken: the log of the server says why.'])
  if (last.waiting > 0) found.push([last.waiting > 100 ? 'bad' : 'warn', plural(last.waiting, 'change waits', 'changes wait'), 'for the writer'])
  if (last.dropped > 0) found.push(['warn', plural(last.dropped, 'subscription was', 'subscriptions were') + ' too slow', 'and had to be dropped'])
  for (const [name, each] of Object.entries(last.streams)) {
    if (each.watermark === null) found.push(['', `${name} has had no event yet`, ''])
    else if (each.lag > BEHIND) found.push(['warn', `${name} is ${seconds(each.lag)} behind`, `its watermark stands at ${each.watermark.slice(0, 19).replace('T', ' ')}`])
    if (each.late) found.push(['warn', `${plural(each.late, 'event', 'events')} of ${name} came too late`, 'and were left out'])
    if (each.ahead) found.push(['warn', `${plural(each.ahead, 'event', 'events')} of ${name} lay too far ahead`, 'and were left out'])
  }
  if (!found.length) return empty('Nothing', 'Every stream is in time, and nobody waits.')
  return h('ul', { class: 'list' }, found.map(([kind, title, note]) => h('li', {}, h('span', { class: `dot ${kind}` }), h('span', {}, title), h('span', { class: 'soft' }, note))))
}
