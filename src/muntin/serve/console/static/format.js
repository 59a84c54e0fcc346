// How numbers, bytes and times are said. Times are those of the server, in UTC.

export function count(value) {
  return Math.round(value).toLocaleString('en')
}

/** Few digits, with the unit of the size: 12.4k, 3.1M. */
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  const size = Math.abs(value)
  for (const [unit, least] of [['G', 1e9], ['M', 1e6], ['k', 1e4]]) {
    if (size >= least) return `${digits(value / (unit === 'k' ? 1e3 : least))}${unit}`
  }
  return size >= 100 || Number.isInteger(value) ? count(value) : digits(value)
}

function digits(value) {
  return value.toLocaleString('en', { maximumSignificantDigits: 3 })
}

export function bytes(value) {
  if (value === null || value === undefined) return '–'
  let left = value
  for (const unit of ['bytes', 'KiB', 'MiB', 'GiB']) {
    if (Math.abs(left) < 1000) return `${unit === 'bytes' ? Math.round(left) : digits(left)} ${unit}`
    left /= 1024
  }
  return `${digits(left)} TiB`
}

/** Seconds as people say them. */
export function seconds(value) {
  if (value === null || value === undefined) return '–'
  const size = Math.abs(value)
  if (size < 1) return `${Math.round(value * 1000)} ms`
  if (size < 120) return `${digits(value)} s`
  if (size < 7200) return `${digits(value / 60)} min`
  if (size < 172800) return `${digits(value / 3600)} h`
  return `${count(value / 86400)} d`
}

/** Nanoseconds. */
export function nanoseconds(value) {
  if (value === null || value === undefined) return '–'
  if (value >= 1e6) return `${digits(value / 1e6)} ms`
  return value >= 1e3 ? `${digits(value / 1e3)} µs` : `${digits(value)} ns`
}

/** Of an instant as the server writes it, the time of day. */
export function clock(text) {
  return typeof text === 'string' ? text.slice(11, 23).replace(/(\.\d{3}).*|Z/, '$1') : '–'
}

export function plural(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many}`
}
