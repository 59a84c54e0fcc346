// The server's addresses. A token is asked for when the server wants one, and is kept until the tab is closed.

import { h } from './dom.js'

const root = new URL('../', import.meta.url)
const KEPT = 'muntin-token'

export class ApiError extends Error {
  constructor(status, told) {
    super(told?.message ?? `the server answers with status ${status}`)
    this.status = status
    this.told = told
  }
}

/** A request that is answered with JSON (or text); an ApiError has the server's own words. */
export async function call(method, path, body, options = {}) {
  const response = await asked(method, path, body, options)
  const isJson = (response.headers.get('content-type') ?? '').includes('application/json')
  return isJson ? response.json() : response.text()
}

export const get = (path, options) => call('GET', path, undefined, options)

async function asked(method, path, body, { signal, headers = {} } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEPT)
    const sent = { ...headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) }
    if (body !== undefined) sent['Content-Type'] = 'application/json'
    let response
    try {
      response = await fetch(new URL(path, root), { method, signal, headers: sent, body: body === undefined ? undefined : JSON.stringify(body) })
    } catch (error) {
      if (error.name === 'AbortError') throw error
      throw new ApiError(0, { kind: 'Unreachable', message: 'The server cannot be reached. It may be starting again.' })
    }
    if (response.status === 401) {
      await login(token)
      continue
    }
    if (!response.ok) throw new ApiError(response.status, await why(response))
    return response
  }
}

async function why(response) {
  try {
    const told = await response.json()
    if (told.error) return told.error
    return { message: typeof told.detail === 'string' ? told.detail : JSON.stringify(told.detail) }
  } catch {
    return { message: `the server answers with status ${response.status}` }
  }
}

// One question for a token at a time, whoever waits for it.
let waiting = null

function login(refused) {
  if (sessionStorage.getItem(KEPT) !== refused) return Promise.resolve() // somebody has given another one meanwhile
  waiting ??= new Promise(resolve => {
    const input = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true, spellcheck: 'false' })
    const box = h('dialog', { class: 'ask', 'aria-label': 'Token' },
      h('form', {
        onsubmit: event => {
          event.preventDefault()
          sessionStorage.setItem(KEPT, input.value.trim())
          box.close()
          box.remove()
          waiting = null
          resolve()
        },
      },
      h('h2', {}, 'This server wants a token'),
      refused ? h('p', { class: 'bad', role: 'alert' }, 'The server does not know that token.') : h('p', { class: 'soft' }, 'Ask who runs it. It is kept until you close this tab.'),
      h('label', { for: 'token' }, 'Token'), input,
      h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Go on'))))
    box.addEventListener('cancel', event => event.preventDefault())
    document.body.append(box)
    box.showModal()
  })
  return waiting
}

/** Do something again and again until the signal says stop; not while the page is hidden. */
export async function poll(work, milliseconds, signal) {
  while (!signal.aborted) {
    if (!document.hidden) await work()
    await new Promise(resolve => {
      const timer = setTimeout(resolve, milliseconds)
      signal.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
    })
  }
}

/** Answers as they come, by fetch, so that a token can be sent. Goes on where it was cut off. */
export async function follow(path, { onAnswer, onState, signal }) {
  let last = null
  let pause = 500
  while (!signal.aborted) {
    try {
      const response = await asked('GET', path, undefined, { signal, headers: last ? { 'Last-Event-ID': last } : {} })
      onState?.('live')
      pause = 500
      for await (const event of events(response.body)) {
        if (event.id) last = event.id
        if (event.event === 'answer') onAnswer(JSON.parse(event.data))
        if (event.event === 'dropped') onState?.('behind')
      }
    } catch (error) {
      if (signal.aborted) return
      if (error.status === 410) last = null // what lies between is not kept any more
      if (error.status === 404 || error.status === 403) { onState?.('gone', error); return }
    }
    if (signal.aborted) return
    onState?.('waiting')
    await new Promise(resolve => setTimeout(resolve, pause))
    pause = Math.min(pause * 2, 8000)
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    rest += value
    const whole = rest.split('\n\n')
    rest = whole.pop()
    for (const block of whole) {
      const event = {}
      for (const line of block.split('\n')) {
        const colon = line.indexOf(': ')
        if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2)
      }
      if (event.event) yield event
    }
  }
}

export const path = (...parts) => parts.map(encodeURIComponent).join('/')
