// Charts: uPlot in the colours of the page, and sparklines.

import uPlot from './vendor/uplot/uPlot.esm.js'
import { s } from './dom.js'

export const COLOURS = ['--c0', '--c1', '--c2', '--c3', '--c4', '--c5', '--c6', '--c7']

const POWERS = Array.from({ length: 50 }, (_, number) => 2 ** number) // steps of an axis of bytes

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}

/**
 * A chart of lines over time (seconds since 1970, shown in UTC). `series` has {label, colour?, fill?, dash?}; a series with
 * `upTo: n` is the upper bound of series n, and what lies between is shaded. Give it data with `set`.
 */
export function chart(host, { format, height = 150, isFromZero = true, isBinary = false, label, signal }) {
  let plot = null
  let shown = { series: [], data: [[]] }

  function build() {
    plot?.destroy()
    const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' }
    const bands = shown.series.flatMap((each, number) => each.upTo === undefined ? [] : [{ series: [number + 1, each.upTo + 1], fill: `${colour(each.colour)}38` }])
    plot = new uPlot({
      width: Math.max(host.clientWidth, 120), height, bands,
      tzDate: at => uPlot.tzDate(new Date(at * 1e3), 'Etc/UTC'),
      legend: { show: false },
      cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
      padding: [8, 6, 0, 0],
      scales: { x: { range: (of, low, high) => of.data[0].length === 1 ? [of.data[0][0] - 30, of.data[0][0] + 30] : [low, high] }, y: { range: (_, low, high) => isFromZero ? [0, Math.max(high, 1e-9) * 1.12] : spread(low, high) } },
      axes: [{ ...axis, space: 70, size: 26, values: (_, splits) => splits.map(hour) },
        { ...axis, size: 58, space: 34, incrs: isBinary ? POWERS : undefined, values: (_, splits) => splits.map(format) }],
      series: [{}, ...shown.series.map(each => ({
        label: each.label, stroke: each.upTo === undefined ? colour(each.colour) : `${colour(each.colour)}80`, dash: each.upTo === undefined ? undefined : [3, 3],
        width: each.upTo === undefined ? 1.75 : 1, fill: each.isFilled ? `${colour(each.colour)}22` : undefined, points: { show: of => of.data[0].length === 1, size: 6 }, spanGaps: true,
      }))],
      hooks: { setCursor: [tell] },
    }, shown.data, host)
    plot.root.setAttribute('role', 'img')
    plot.root.setAttribute('aria-label', label ?? '')
    tip = document.createElement('div')
    tip.className = 'tip'
    tip.hidden = true
    plot.over.append(tip)
  }

  let tip = null
  function tell(of) {
    const { idx, left } = of.cursor
    if (!tip || idx === null || idx === undefined || left < 0) { if (tip) tip.hidden = true; return }
    tip.hidden = false
    const lines = shown.series.map((each, number) => [each, shown.data[number + 1][idx]]).filter(([each, value]) => value !== null && value !== undefined && each.upTo === undefined)
    tip.replaceChildren(`${hour(shown.data[0][idx], true)}`, ...lines.map(([each, value]) => {
      const line = document.createElement('span')
      line.textContent = `${each.label} ${format(value)}`
      line.style.setProperty('--dot', `var(${each.colour})`)
      return line
    }))
    const isRight = left > of.over.clientWidth / 2
    tip.style.left = isRight ? '' : `${left + 12}px`
    tip.style.right = isRight ? `${of.over.clientWidth - left + 12}px` : ''
  }

  const watched = new ResizeObserver(() => plot?.setSize({ width: Math.max(host.clientWidth, 120), height }))
  watched.observe(host)
  window.addEventListener('themed', build, { signal })
  signal?.addEventListener('abort', () => { watched.disconnect(); plot?.destroy() })
  return {
    set(series, data) {
      const isSame = plot && series.length === shown.series.length && series.every((each, number) => each.label === shown.series[number].label)
      shown = { series, data }
      if (isSame) plot.setData(data)
      else build()
    },
  }
}

function spread(low, high) {
  const room = (high - low || Math.abs(high) || 1) * 0.12
  return [low - room, high + room]
}

function hour(at, hasSeconds = false) {
  const text = new Date(at * 1e3).toISOString()
  return hasSeconds || Math.round(at) % 60 ? text.slice(11, 19) : text.slice(11, 16)
}

/** A small line without axes. */
export function sparkline(values, label) {
  const width = 96
  const height = 24
  const most = Math.max(...values, 0)
  const made = s('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label ?? 'recent answers' })
  if (values.length < 2 || most === 0) {
    made.append(s('path', { class: 'flat', d: `M0 ${height - 2}H${width}` }))
    return made
  }
  const points = values.map((value, number) => `${(number * width / (values.length - 1)).toFixed(1)} ${(height - 2 - value / most * (height - 5)).toFixed(1)}`)
  made.append(s('path', { class: 'under', d: `M0 ${height}L${points.join('L')}L${width} ${height}Z` }), s('path', { class: 'line', d: `M${points.join('L')}` }))
  return made
}
