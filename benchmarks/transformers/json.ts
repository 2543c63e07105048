// Decoding JSON documents from bytes to rows, compared with JSON.parse of the same bytes.
//
// Both are measured in turns in one process, and each turn decodes many payloads in separate memory, like those of a log.
// The ratio is what counts; it depends less on the machine than nanoseconds.

import type { Envelope } from '../../transformers/envelope.ts'
import { openJsonDocuments } from '../../transformers/json/documents.ts'
import type { TimeField } from '../../transformers/json/times/time-fields.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { callNs, median } from '../median-time.ts'

const turns = 41
const turnMs = 15
const batchRows = 2000
const createdS = 1_700_000_000

interface Case {
  name: string
  timeFields: readonly TimeField[]
  payload: (ordinal: number) => string
}

/** A typical reading of about 150 bytes, with the time that `time` returns. */
function reading(ordinal: number, time: string): string {
  return (
    `{"time":${time},"device":"urn:dev:ow:10e2073a0108${String(ordinal % 1000).padStart(4, '0')}","temperature":${(20 + (ordinal % 97) / 10).toFixed(1)},` +
    `"humidity":${40 + (ordinal % 50)},"open":${ordinal % 2 === 0},"position":{"lat":52.52,"lon":13.405},"tags":["a","b"]}`
  )
}

const seconds = (ordinal: number): number => createdS - (ordinal % 1_000_000) * 60
const iso = (ordinal: number): string => new Date(seconds(ordinal) * 1000).toISOString()
const field = (fieldFormat: string, location?: string): TimeField[] => [
  { fieldName: 'time', fieldFormat, ...(location === undefined ? {} : { location }) },
]

const cases: readonly Case[] = [
  { name: 'no time field', timeFields: [], payload: ordinal => reading(ordinal, String(seconds(ordinal))) },
  { name: 'unix', timeFields: field('unix'), payload: ordinal => reading(ordinal, String(seconds(ordinal))) },
  { name: 'unix, a fraction', timeFields: field('unix'), payload: ordinal => reading(ordinal, `${seconds(ordinal)}.25`) },
  { name: 'unix_ns, 19 digits', timeFields: field('unix_ns'), payload: ordinal => reading(ordinal, `${seconds(ordinal)}123456789`) },
  { name: 'rfc3339', timeFields: field('rfc3339'), payload: ordinal => reading(ordinal, `"${iso(ordinal)}"`) },
  {
    name: 'layout in Europe/Berlin',
    timeFields: field('2006-01-02 15:04:05', 'Europe/Berlin'),
    payload: ordinal => reading(ordinal, `"${iso(ordinal).slice(0, 19).replace('T', ' ')}"`),
  },
  {
    name: 'array of 12, unix_ms',
    timeFields: field('unix_ms'),
    payload: ordinal => `[${Array.from({ length: 12 }, (_, at) => reading(ordinal, String(seconds(ordinal + at) * 1000))).join(',')}]`,
  },
]

const envelope: Envelope = {
  channel: 'channel',
  subtopic: 'building.room',
  publisher: 'publisher',
  protocol: 'http',
  contentType: 'application/json',
  createdUs: createdS * 1e6,
  createdRestNs: 0,
}

/** Prints a line for each kind of payload. */
export async function bench(): Promise<void> {
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  let kept: unknown
  let batch = new RecordBatch()
  const parse = (payload: Uint8Array): void => {
    kept = JSON.parse(utf8.decode(payload))
  }

  console.log('json, medians                 bytes   parse ns   rows ns   ns a row   ratio')
  for (const { name, timeFields, payload } of cases) {
    const transformer = openJsonDocuments({ timeFields })
    const decode = (payload: Uint8Array): void => {
      if (batch.rowCount >= batchRows) batch = new RecordBatch()
      batch.beginMessage({ at: logPartition(0, 0), offset: 0, channel: 'channel', subtopic: '', publisher: 'publisher', protocol: 'http' })
      transformer.decode(payload, envelope, batch)
      batch.endMessage()
    }
    const payloads = Array.from({ length: 1000 }, (_, ordinal) => new TextEncoder().encode(payload(ordinal)))
    const parsed: number[] = []
    const decoded: number[] = []
    for (let turn = 0; turn < turns; turn++) {
      parsed.push(callNs(parse, payloads, turnMs))
      decoded.push(callNs(decode, payloads, turnMs))
    }
    const root: unknown = JSON.parse(utf8.decode(payloads[0]))
    const rows = Array.isArray(root) ? root.length : 1
    const [parseNs, decodeNs] = [median(parsed), median(decoded)]
    console.log(
      `${name.padEnd(25)}${String(payloads[0]!.length).padStart(10)}${parseNs.toFixed(0).padStart(11)}${decodeNs.toFixed(0).padStart(10)}` +
        `${(decodeNs / rows).toFixed(0).padStart(11)}${(decodeNs / parseNs).toFixed(2).padStart(8)}`,
    )
  }
  if (kept === undefined) throw new Error('nothing was parsed')
}

if (import.meta.main) await bench()
