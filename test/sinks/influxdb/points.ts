// Points as an operator handles them: written as they are, and deleted.

import { fieldKeyText, stringText, tagText } from '../../../sinks/influxdb/line-protocol.ts'
import type { SinkOptions } from '../../../sinks/influxdb/options.ts'
import { addressOf } from '../../../sinks/influxdb/options.ts'
import type { FieldValue, StoredPoint } from '../../../sinks/influxdb/registry.ts'

/** The line that writes the point as it is. */
export function lineOf({ measurement, tags, ns, fields }: StoredPoint): string {
  const series = [measurement, ...[...tags].map(([name, value]) => `${tagText(name)}=${tagText(value)}`)].join(',')
  return `${series} ${[...fields].map(([key, value]) => `${fieldKeyText(key)}=${valueText(value)}`).join(',')} ${ns}\n`
}

function valueText(value: FieldValue): string {
  if (typeof value === 'string') return stringText(value)!
  return typeof value === 'bigint' ? `${value}i` : String(value)
}

/** Nanoseconds since 1970 as RFC 3339. */
export function timestampOf(ns: bigint): string {
  const seconds = (ns - (((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n)) / 1_000_000_000n
  const rest = ns - seconds * 1_000_000_000n
  return `${new Date(Number(seconds) * 1000).toISOString().slice(0, 19)}.${String(rest).padStart(9, '0')}Z`
}

/** In the words of InfluxQL, where a value stands in double quotes as a name does. No tag holds a line end. */
export function predicateOf(columns: Readonly<Record<string, string>>): string {
  const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, '\\$&')}"`
  return Object.entries(columns)
    .map(([name, value]) => `${quoted(name)}=${quoted(value)}`)
    .join(' and ')
}

/** Deletes the points between two instants, both inclusive, whose tags the predicate names: all where it is empty. */
export async function removePoints(
  { url, token }: Pick<SinkOptions, 'url' | 'token'>,
  start: string,
  stop: string,
  predicate: string,
): Promise<void> {
  const { origin, org, bucket } = addressOf(url)
  const answer = await fetch(`${origin}/api/v2/delete?org=${org}&bucket=${bucket}`, {
    method: 'POST',
    headers: { authorization: `Token ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ start, stop, predicate }),
  })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
}
