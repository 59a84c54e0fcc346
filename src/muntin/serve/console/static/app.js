// The frame of the console: pages by the hash of the address, the theme, and whether the server is there.

import { get, poll } from './api.js'
import { empty, fill, h, trouble } from './dom.js'
import alerts from './pages/alerts.js'
import editor from './pages/editor.js'
import overview from './pages/overview.js'
import queries from './pages/queries.js'
import query from './pages/query.js'
import sharing from './pages/sharing.js'
import streams from './pages/streams.js'
import tables from './pages/tables.js'

const PAGES = { overview, queries, sharing, alerts, editor, tables, streams }
const TITLES = { overview: 'Overview', queries: 'Queries', sharing: 'Sharing', alerts: 'Alerts', editor: 'Editor', tables: 'Tables', streams: 'Streams' }

const main = document.getElementById('main')
const nav = document.getElementById('nav')
fill(nav, Object.entries(TITLES).map(([name, title]) => h('a', { href: `#/${name}`, 'data-page': name }, title)))

let shown = new AbortController()

function route() {
  shown.abort()
  shown = new AbortController()
  const [name = 'overview', ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(decoded)
  const isOne = name === 'queries' && rest.length > 0
  const page = isOne ? query : PAGES[name || 'overview']
  for (const link of nav.children) {
    if (link.dataset.page === (name || 'overview')) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  document.title = `${isOne ? rest[0] : TITLES[name || 'overview'] ?? 'Not found'} · muntin`
  const body = h('div', { class: 'page' })
  fill(main, body)
  window.scrollTo(0, 0)
  nav.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  if (!page) {
    fill(body, empty('There is no such page', 'The address may be of another version.', h('a', { class: 'button', href: '#/overview' }, 'Overview')))
    return
  }
  const { signal } = shown
  const patience = setTimeout(() => { if (!signal.aborted && !body.hasChildNodes()) fill(body, h('p', { class: 'loading', role: 'status' }, 'Loading …')) }, 250)
  signal.addEventListener('abort', () => clearTimeout(patience))
  Promise.resolve(page(body, rest, signal)).catch(error => {
    if (!signal.aborted) fill(body, trouble(error))
  })
}

function decoded(text) {
  try { return decodeURIComponent(text) } catch { return text }
}

// The theme: that of the system, until somebody chooses.

const toggle = document.getElementById('theme')
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)')

function isDark() {
  return (document.documentElement.dataset.theme ?? (prefersDark.matches ? 'dark' : 'light')) === 'dark'
}

function themed() {
  fill(toggle, isDark() ? 'Light theme' : 'Dark theme')
  window.dispatchEvent(new Event('themed'))
}

const kept = localStorage.getItem('muntin-theme')
if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept
toggle.addEventListener('click', () => {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark'
  localStorage.setItem('muntin-theme', document.documentElement.dataset.theme)
  themed()
})
prefersDark.addEventListener('change', themed)
themed()

// Whether it takes changes.

const state = document.getElementById('state')
poll(async () => {
  try {
    const { version } = await get('health')
    fill(state, h('span', { class: 'dot good' }), `Running, ${version}`)
  } catch {
    fill(state, h('span', { class: 'dot bad' }), 'Not reachable')
  }
}, 5000, new AbortController().signal)

document.querySelector('.skip').addEventListener('click', event => { event.preventDefault(); main.focus() })
window.addEventListener('hashchange', route)
route()
