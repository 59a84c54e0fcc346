// Editor: a query is checked as it is written, with the caret under the wrong word; its plan is shown before it is registered.

import { call, get, path } from '../api.js'
import { ask, fill, h, head, highlighted, toast, trouble } from '../dom.js'

const PAUSE = 350 // milliseconds without a key before the text is checked

export default async function editor(body, [given], signal) {
  const before = given ? await get(`${path('queries', given)}?plan=false`, { signal }) : null
  const streams = await get('streams', { signal })
  const name = h('input', { type: 'text', id: 'name', value: given ?? '', placeholder: 'name of the query', autocomplete: 'off', spellcheck: 'false' })
  const text = h('textarea', { id: 'sql', spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', 'aria-label': 'Text of the query', 'aria-describedby': 'checked', rows: '5' })
  text.value = before?.sql ?? example(streams[0])
  const under = h('pre', { class: 'under', 'aria-hidden': 'true' })
  const checked = h('div', { id: 'checked', 'aria-live': 'polite' })
  const register = h('button', { type: 'button', class: 'primary', onclick: save }, given ? 'Replace' : 'Register')
  const explain = h('button', { type: 'button', onclick: () => check(true) }, 'Explain')
  const drop = given ? h('button', { type: 'button', class: 'danger', onclick: remove }, 'Drop') : null
  fill(body, head(given ? `Edit ${given}` : 'Editor', 'The text is checked as you write, and explained before anything is registered'),
    h('section', { class: 'card' },
      h('div', { class: 'bar' }, h('label', {}, 'Name', name), h('span', { class: 'push' }), explain, register, drop),
      h('div', { class: 'editor' }, under, text)),
    checked,
    h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', {}, 'Streams')),
      streams.length ? streams.map(each => h('p', { class: 'columns' }, h('strong', {}, each.name), ' ', Object.entries(each.columns).map(([column, type]) => h('span', { class: 'pair' }, column, ' ', h('span', { class: 'soft' }, type))))) : h('p', { class: 'soft' }, 'There are none: the script of the server declares them.')))

  let timer = 0
  let round = 0
  show(null)
  text.addEventListener('input', () => { show(null); clearTimeout(timer); timer = setTimeout(check, PAUSE) })
  text.addEventListener('scroll', () => { under.scrollTop = text.scrollTop; under.scrollLeft = text.scrollLeft })
  text.addEventListener('keydown', event => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); save() }
  })
  check()

  /** The text under the transparent one that is typed into: coloured, and marked where it is wrong. */
  function show(wrong) {
    fill(under, highlighted(text.value, wrong), '\n')
    text.style.height = 'auto'
    text.style.height = `${Math.max(150, text.scrollHeight + 2)}px`
  }

  function mark(error) {
    const { line, column } = error.told ?? {}
    if (!line || !column) return show(null)
    const lines = text.value.split('\n')
    show(lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1)
  }

  async function check(isAsked = false) {
    const now = ++round
    if (!text.value.trim()) { fill(checked); return }
    try {
      const { plan } = await call('POST', 'explain', { sql: text.value }, { signal })
      if (now !== round) return
      show(null)
      fill(checked, h('section', { class: 'card', id: 'plan' }, h('div', { class: 'card-head' }, h('h2', {}, 'Plan'), h('span', { class: 'badge good' }, 'understood'), h('span', { class: 'soft' }, 'as it would be served by itself')), h('pre', { class: 'plan' }, plan)))
    } catch (error) {
      if (signal.aborted || now !== round) return
      mark(error)
      fill(checked, trouble(error))
    }
    if (isAsked) checked.scrollIntoView({ block: 'nearest', behavior: 'smooth' })
  }

  async function save() {
    clearTimeout(timer)
    round++
    const called = name.value.trim()
    if (!called) { toast('A query has a name: write one.', true); name.focus(); return }
    register.disabled = true
    try {
      await call('PUT', `${path('queries', called)}${given ? '?replace=true' : ''}`, { sql: text.value })
      toast(given ? `${called} is replaced.` : `${called} is registered.`)
      location.hash = `#/queries/${path(called)}`
    } catch (error) {
      if (error.status === 409 && await ask(`There is a query ${called} already`, 'Replacing it keeps the numbers of its answers.', 'Replace it')) return replace(called)
      mark(error)
      fill(checked, trouble(error))
    } finally { register.disabled = false }
  }

  async function replace(called) {
    try {
      await call('PUT', `${path('queries', called)}?replace=true`, { sql: text.value })
      location.hash = `#/queries/${path(called)}`
    } catch (error) { fill(checked, trouble(error)) }
  }

  async function remove() {
    if (!await ask(`Drop ${given}?`, 'No other query’s answer changes. What only this one needed is freed.', 'Drop it')) return
    try {
      await call('DELETE', path('queries', given))
      toast(`${given} is dropped.`)
      location.hash = '#/queries'
    } catch (error) { toast(error.message, true) }
  }
}

/** A query over a stream, to begin with. */
function example(stream) {
  if (!stream) return ''
  const columns = Object.entries(stream.columns).filter(([column]) => column !== stream.time)
  const key = columns.find(([, type]) => type === 'string')?.[0]
  const value = columns.find(([, type]) => /int|double|float/.test(type))?.[0]
  const what = value ? `SUM(${value}) AS total` : 'COUNT(*) AS events'
  return `SELECT ${key ? `${key}, ` : ''}${what}\nFROM ${stream.name} [RANGE 5 MINUTES SLIDE 10 SECONDS]${key ? `\nGROUP BY ${key}` : ''}`
}
