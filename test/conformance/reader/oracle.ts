// The expected answers of a reader, computed from the rows by the simplest possible code.

import {
  type AggregateQuery,
  type Bucket,
  type Filter,
  type FormatsQuery,
  type FoundFormat,
  keyOf,
  noFilters,
  type PageQuery,
  type Row,
  type RowKey,
  type SenmlRow,
  senmlFormat,
} from '../../../readers/reader.ts'

/** A row with its format, which a returned row does not contain. */
export interface StoredRow {
  readonly format: string
  readonly row: Row
}

export function timeOf(row: Row): bigint {
  return row.kind === 'senml' ? BigInt(row.timeUs) * 1000n : row.createdNs
}

export function selected(stored: readonly StoredRow[], filter: Filter): Row[] {
  return stored.filter(one => one.format === filter.format && fits(one.row, filter)).map(({ row }) => row)
}

function fits(row: Row, filter: Filter): boolean {
  const { channel, publisher, subtopic, protocol, fromNs, toNs } = filter
  if (row.channel !== channel) return false
  if (publisher !== undefined && row.publisher !== publisher) return false
  if (subtopic !== undefined && row.subtopic !== subtopic) return false
  if (protocol !== undefined && row.protocol !== protocol) return false
  if (fromNs !== undefined && timeOf(row) < fromNs) return false
  if (toNs !== undefined && timeOf(row) >= toNs) return false
  return row.kind === 'senml'
    ? fitsRecord(row, filter)
    : filter.payload.every(filter => textAt(row.payloadText, filter.path) === filter.text)
}

function fitsRecord(row: SenmlRow, { name, unit, value, boolValue, stringValue, dataValue }: Filter): boolean {
  if (name !== undefined && row.name !== name) return false
  if (unit !== undefined && (row.unit ?? '') !== unit) return false
  if (value !== undefined) {
    if (row.value === undefined) return false
    const difference = row.value === value.number ? 0 : row.value < value.number ? -1 : 1
    const fitting = { eq: [0], lt: [-1], le: [-1, 0], gt: [1], ge: [0, 1] }[value.comparator]
    if (!fitting.includes(difference)) return false
  }
  if (boolValue !== undefined && row.boolValue !== boolValue) return false
  if (stringValue !== undefined && row.stringValue !== stringValue) return false
  return dataValue === undefined || (row.dataValue !== undefined && Buffer.from(row.dataValue).equals(dataValue))
}

/** The text of a scalar in a JSON text; undefined if it is missing or not a scalar. Integers keep their digits. */
function textAt(payloadText: string, path: readonly string[]): string | undefined {
  const exact = (_key: string, value: unknown, context: { source?: string }): unknown =>
    typeof value === 'number' && /^-?\d{16,19}$/.test(context.source ?? '') ? BigInt(context.source!) : value
  let value = (JSON.parse as (text: string, reviver: unknown) => unknown)(payloadText, exact)
  for (const key of path) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<string, unknown>)[key]
  }
  return typeof value === 'object' && value !== null ? undefined : String(value)
}

export function inOrder(rows: readonly Row[], direction: PageQuery['direction']): Row[] {
  const sign = direction === 'desc' ? -1 : 1
  return rows.toSorted((one, other) => sign * compare(one, other))
}

function compare(one: Row, other: Row): number {
  return compareKeys(keyOf(one), keyOf(other))
}

function compareKeys(one: RowKey, other: RowKey): number {
  const [oneParts, otherParts] = [one, other].map(key => [key.timeNs, key.position, BigInt(key.index)]) as [bigint[], bigint[]]
  for (let at = 0; at < 3; at++) if (oneParts[at] !== otherParts[at]) return oneParts[at]! < otherParts[at]! ? -1 : 1
  return 0
}

export function pageOf(rows: readonly Row[], { direction, offset, limit, after }: PageQuery): Row[] {
  const sign = direction === 'desc' ? -1 : 1
  const behind = inOrder(rows, direction).filter(row => after === undefined || sign * compareKeys(keyOf(row), after) > 0)
  return behind.slice(offset, offset + limit)
}

export function latestOf(rows: readonly Row[]): Row[] {
  const seen = new Set<string>()
  return inOrder(rows, 'desc').filter(row => {
    const key = JSON.stringify([row.channel, row.publisher, row.subtopic, row.kind === 'senml' ? row.name : ''])
    return !seen.has(key) && seen.add(key)
  })
}

export function bucketsOf(rows: readonly Row[], { aggregation, intervalUs, direction }: AggregateQuery): Bucket[] {
  const numbers = inOrder(rows, 'asc').filter((row): row is SenmlRow & { value: number } => row.kind === 'senml' && row.value !== undefined)
  const bucketTime = (row: SenmlRow): number => Math.floor(row.timeUs / intervalUs) * intervalUs
  const groups = Map.groupBy(numbers, row =>
    JSON.stringify([bucketTime(row), row.channel, row.publisher, row.subtopic, row.name, row.unit ?? null]),
  )
  const buckets = [...groups.values()].map((members): Bucket => {
    const [row] = members
    const values = members.map(({ value }) => value)
    const sum = values.reduce((total, value) => total + value, 0)
    const value = {
      min: Math.min(...values),
      max: Math.max(...values),
      avg: sum / values.length,
      sum,
      count: values.length,
      first: values[0]!,
      last: values.at(-1)!,
    }[aggregation]
    const { channel, publisher, subtopic, name, unit } = row!
    return { channel, publisher, subtopic, name, unit, timeUs: bucketTime(row!), value, count: values.length }
  })
  const bytes = (bucket: Bucket): Buffer[] =>
    [bucket.publisher, bucket.subtopic, bucket.name, bucket.unit ?? '', bucket.channel].map(text => Buffer.from(text))
  return buckets.toSorted((one, other) => {
    if (one.timeUs !== other.timeUs) return direction === 'desc' ? other.timeUs - one.timeUs : one.timeUs - other.timeUs
    const [left, right] = [bytes(one), bytes(other)]
    return left.map((text, at) => Buffer.compare(text, right[at]!)).find(difference => difference !== 0) ?? 0
  })
}

/** The sum divided by `divisor`, computed without rounding, as the nearest double or one beside it; infinite beyond them. */
export function exactSum(numbers: readonly number[], divisor = 1): number {
  const units = numbers.reduce((sum, number) => sum + unitsOf(number), 0n) / BigInt(divisor)
  const digits = (units < 0n ? -units : units).toString(2).length
  const dropped = Math.max(0, digits - 64)
  // In two steps, since 2^-1074 times a great power of two is out of the range of a double.
  return Number(units >> BigInt(dropped)) * 2 ** Math.floor((dropped - 1074) / 2) * 2 ** Math.ceil((dropped - 1074) / 2)
}

/** A double as a whole number of 2^-1074, the least of them. */
function unitsOf(number: number): bigint {
  const bits = new DataView(new ArrayBuffer(8))
  bits.setFloat64(0, number)
  const exponent = (bits.getUint16(0) >> 4) & 0x7ff
  const fraction = bits.getBigUint64(0) & ((1n << 52n) - 1n)
  const units = exponent === 0 ? fraction : (fraction | (1n << 52n)) << BigInt(exponent - 1)
  return number < 0 ? -units : units
}

export function formatsOf(
  stored: readonly StoredRow[],
  { channel, publisher, fromUs, rowsMax, formatsMax, subtopicsMax }: FormatsQuery,
): FoundFormat[] {
  const names = [...new Set(stored.map(({ format }) => format))].filter(format => format !== senmlFormat)
  const ordered = [senmlFormat, ...names.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)))]
  const found = ordered.map((format): FoundFormat => {
    const rows = inOrder(selected(stored, filterOf({ channel, publisher, format, fromNs: BigInt(fromUs) * 1000n })), 'desc')
    const newest = latestOf(rows.slice(0, rowsMax).map(row => ({ ...row, publisher: '', name: '' })))
    const subtopics = newest
      .map(row => ({ subtopic: row.subtopic, lastUs: Number((timeOf(row) - (((timeOf(row) % 1000n) + 1000n) % 1000n)) / 1000n) }))
      .toSorted((one, other) => other.lastUs - one.lastUs || Buffer.compare(Buffer.from(one.subtopic), Buffer.from(other.subtopic)))
    return { format, subtopics: subtopics.slice(0, subtopicsMax), hasMore: rows.length >= rowsMax || subtopics.length > subtopicsMax }
  })
  return found.filter(({ subtopics }) => subtopics.length > 0).slice(0, formatsMax)
}

export function filterOf(some: Partial<Filter> & Pick<Filter, 'channel'>): Filter {
  return { ...noFilters, format: senmlFormat, ...some }
}
