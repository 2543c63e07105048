// Flux, of fixed words and escaped literals: nothing else is ever put into a query.

/** All instants that InfluxDB has, the last one excepted. */
export const earliestNs = -9_223_372_036_854_775_806n
export const latestNs = 9_223_372_036_854_775_806n

/** A string literal. Every byte that is not harmless by itself is written as one. */
export function fluxText(text: string): string {
  return `"${text.replaceAll(/[^\w .:/-]+/g, bytes)}"`
}

function bytes(text: string): string {
  let escaped = ''
  for (const byte of Buffer.from(text, 'utf8')) escaped += `\\x${byte.toString(16).padStart(2, '0')}`
  return escaped
}

/** An instant, nanoseconds since 1970. */
export function fluxTime(ns: bigint): string {
  return `time(v: ${ns})`
}

export interface Range {
  /** Inclusive; the earliest there is if not given. */
  readonly startNs?: bigint
  /** Exclusive; the latest there is if not given. */
  readonly stopNs?: bigint
}

/** `from |> range`: of all times where no range is given. */
export function fluxFrom(bucket: string, { startNs = earliestNs, stopNs = latestNs }: Range = {}): string {
  return `from(bucket: ${fluxText(bucket)}) |> range(start: ${fluxTime(startNs)}, stop: ${fluxTime(stopNs)})`
}

/** A filter by equality of all these columns, which the storage does itself. */
export function fluxWhere(columns: Readonly<Record<string, string>>): string {
  const terms = Object.entries(columns).map(([name, value]) => `r[${fluxText(name)}] == ${fluxText(value)}`)
  return ` |> filter(fn: (r) => ${terms.join(' and ')})`
}

/** A filter for these measurements, or for points with any of these values of the tag `channel`. */
export function fluxOf(values: readonly string[], column: '_measurement' | 'channel' = '_measurement'): string {
  return ` |> filter(fn: (r) => ${values.map(value => `r.${column} == ${fluxText(value)}`).join(' or ')})`
}

/**
 * Adds the column `exact`: the text of `_value` so that CSV, which changes line ends, keeps it. `unescaped` reads it. To be used with
 * `import "strings"`; values of every type have a text, since a column may not differ in its type between the tables of a query.
 */
export const exactText = ` |> map(fn: (r) => ({r with exact: strings.replaceAll(v: strings.replaceAll(v: strings.replaceAll(
  v: string(v: r._value), t: "\\\\", u: "\\\\\\\\"), t: "\\r", u: "\\\\r"), t: "\\n", u: "\\\\n")}))`

export function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_all, mark: string) => (mark === 'r' ? '\r' : mark === 'n' ? '\n' : mark))
}

/** RFC 3339 with nanoseconds, as nanoseconds since 1970. */
export function nsOf(instant: string): bigint {
  const [, seconds, fraction = ''] = /^(.*:\d\d)(?:\.(\d{1,9}))?Z$/.exec(instant) ?? []
  if (seconds === undefined) throw new RangeError(`${instant} is no instant in UTC`)
  return BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
}

/** Nanoseconds since 1970 as RFC 3339. */
export function instantOf(ns: bigint): string {
  const seconds = (ns - (((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n)) / 1_000_000_000n
  const rest = ns - seconds * 1_000_000_000n
  return `${new Date(Number(seconds) * 1000).toISOString().slice(0, 19)}.${String(rest).padStart(9, '0')}Z`
}
