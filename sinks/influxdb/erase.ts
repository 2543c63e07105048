// Erases points of an InfluxDB store: counts them by measurement and span of time, and deletes each span that has some. A predicate of a delete names
// tags, so what is written meanwhile is deleted as well.

import { senmlFormat } from '../../transformers/record-batch.ts'
import { type ErasureFilter, erasureText, type StoreErasure } from '../erasure.ts'
import { type Connection, cell, fluxFrom, fluxWhere, nsOf } from './connection.ts'
import { physicalName } from './encode.ts'
import { noteErasure, readFormats, tagsPredicate } from './registry.ts'

/** As long as a shard: each delete then reaches one or two. */
const spanDays = 28

/** Points that meet the conditions. */
interface Span {
  readonly measurement: string
  /** RFC 3339, both included. */
  readonly start: string
  readonly stop: string
  readonly points: number
}

export function openErasure(connection: Connection): StoreErasure {
  async function spansOf({ channel, publisher, format, beforeMs }: ErasureFilter, signal: AbortSignal): Promise<Span[]> {
    const range = beforeMs === undefined ? {} : { stopNs: BigInt(beforeMs) * 1_000_000n }
    const measurement = format === undefined || format === senmlFormat ? format : physicalName(format)
    const inMeasurement = measurement === undefined ? {} : { _measurement: measurement }
    const where = fluxWhere({ _field: '/position', ...inMeasurement, ...tagsOf(channel, publisher) })
    const counted = ` |> window(every: ${spanDays}d) |> count() |> group(columns: ["_measurement", "_start", "_stop"]) |> sum()`
    const spans: Span[] = []
    for await (const rows of connection.query(fluxFrom(connection.bucket, range) + where + counted, signal)) {
      for (const row of rows) {
        spans.push({
          measurement: cell(row, '_measurement')!,
          start: cell(row, '_start')!,
          stop: timestampOf(nsOf(cell(row, '_stop')!) - 1n),
          points: Number(cell(row, '_value')),
        })
      }
    }
    return spans
  }

  return {
    async count(filter, signal) {
      const formats = new Map((await readFormats(connection, signal)).map(({ format }) => [physicalName(format), format]))
      const counts = new Map<string, number>()
      for (const { measurement, points } of await spansOf(filter, signal)) {
        const format = formats.get(measurement) ?? measurement
        counts.set(format, (counts.get(format) ?? 0) + points)
      }
      return counts
    },

    async erase(filter, signal, onErased) {
      let erased = 0
      for (const { measurement, start, stop, points } of await spansOf(filter, signal)) {
        const predicate = tagsPredicate({ _measurement: measurement, ...tagsOf(filter.channel, filter.publisher) })
        await connection.remove(connection.bucket, { start, stop }, predicate, signal)
        erased += points
        await onErased(points)
      }
      return erased
    },

    note: erasure => noteErasure(connection, erasure.id, erasureText(erasure)),
    close: () => connection.close(),
  }
}

function tagsOf(channel: string | undefined, publisher: string | undefined): Record<string, string> {
  return { ...(channel === undefined ? {} : { channel }), ...(publisher === undefined ? {} : { publisher }) }
}

/** RFC 3339 with nanoseconds. */
function timestampOf(ns: bigint): string {
  const rest = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n
  const seconds = new Date(Number((ns - rest) / 1_000_000n)).toISOString().slice(0, -'.000Z'.length)
  return `${seconds}.${String(rest).padStart(9, '0')}Z`
}
