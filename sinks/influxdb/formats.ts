// The JSON formats that the store has a measurement for: registered before a point of one is written, and known from then on.
//
// A measurement needs no making, so a point in the registry is all there is. InfluxDB has no transaction in which formats could be counted and one
// added: workers that register at the same instant may together pass the limit, by one format each at most.

import { admitFormats, type FormatRefusal, type RegisteredFormat, type WantedFormat } from '../format-registry.ts'
import { RefusedFormats } from '../refused-formats.ts'
import type { Connection } from './connection.ts'
import { stringText, tagText } from './line-protocol.ts'
import type { SinkOptions } from './options.ts'
import { physicalName } from './physical-name.ts'
import { readRegistry, registryNs, textField, writeRegistry } from './registry.ts'

const measurement = 'formats'

export interface Formats {
  /** Registers formats that are missing, and says which are refused. Costs nothing for formats that were asked for before. */
  admit(wanted: readonly WantedFormat[], signal: AbortSignal): Promise<ReadonlyMap<string, FormatRefusal>>
}

/** @param nowMs of a clock that only goes forward */
export function openFormats(connection: Connection, options: SinkOptions, nowMs: () => number = () => performance.now()): Formats {
  const known = new Set<string>()
  const refusedLately = new RefusedFormats(nowMs)
  return {
    async admit(wanted, signal) {
      const { refused: refusals, missing } = refusedLately.sort(wanted, format => known.has(format))
      if (missing.length === 0) return refusals
      const registered = await readFormats(connection, signal)
      for (const { format } of registered) known.add(format)
      const writable = missing.filter(({ format }) => stringText(format) !== undefined)
      const { added, refused } = admitFormats(registered, writable, options)
      if (added.length > 0) await writeRegistry(connection, added.map(formatLine), signal)
      for (const { format } of added) known.add(format)
      for (const want of missing) {
        const refusal = stringText(want.format) === undefined ? notText : refused.get(want.format)
        if (refusal === undefined) continue
        refusals.set(want.format, refusal)
        refusedLately.add(want, refusal)
      }
      return refusals
    },
  }
}

const notText: FormatRefusal = {
  rule: 'store-refused',
  reason: 'the format holds a NUL or half a surrogate pair, which InfluxDB would not give back',
  hint: 'use letters, digits, "-" and "_" in the last part of the subtopic',
}

/** A channel that could not be written is refused with its messages; here it only counts. */
function formatLine({ format, channel }: RegisteredFormat): string {
  const channelText = stringText(channel) ?? '""'
  const created = `created_at="${new Date().toISOString()}"`
  return `${measurement},name=${tagText(physicalName(format))} format=${stringText(format)},channel=${channelText},${created} ${registryNs}`
}

export async function readFormats(connection: Connection, signal?: AbortSignal): Promise<RegisteredFormat[]> {
  const points = await readRegistry(connection, [measurement], signal)
  return points.map(point => ({ format: textField(point, 'format'), channel: textField(point, 'channel') }))
}
