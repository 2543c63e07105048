// Decoding SenML JSON from bytes to rows, compared with JSON.parse of the same bytes.
//
// Both are measured in turns in one process, and each turn decodes many payloads in separate memory, like those of a log.
// The ratio is what counts; it depends less on the machine than nanoseconds.

import type { Envelope } from '../../transformers/envelope.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { openSenmlJson } from '../../transformers/senml/json.ts'
import { callNs, median } from '../median-time.ts'

const turns = 41
const turnMs = 15
const batchRows = 2000
const createdUs = 1_700_000_000_000_000

interface Case {
  name: string
  /** Target of the ratio. */
  ratioMax: number
  pack: (ordinal: number) => string
}

const cases: readonly Case[] = [
  {
    name: 'single record',
    ratioMax: 1.6,
    pack: ordinal =>
      `[{"n":"urn:dev:ow:10e2073a0108${String(ordinal % 1000).padStart(4, '0')}","u":"Cel","v":${(20 + (ordinal % 97) / 10).toFixed(1)}}]`,
  },
  {
    name: 'single record with base name and time',
    ratioMax: 1.6,
    pack: ordinal =>
      `[{"bn":"urn:dev:ow:${ordinal % 1000}:","bt":${1_699_999_000 + ordinal},"n":"temperature","u":"Cel","v":${(20 + (ordinal % 97) / 10).toFixed(1)}}]`,
  },
  {
    name: '12 records',
    ratioMax: 1.25,
    pack: ordinal => {
      let text = `[{"bn":"urn:dev:ow:10e2073a0108${ordinal % 1000}:","bt":${1_699_999_000 + ordinal}.001,"bu":"A","n":"voltage","u":"V","v":120.1}`
      for (let record = 1; record < 12; record++)
        text += `,{"n":"current","t":${record - 12},"v":${(1.2 + ((ordinal + record) % 50) / 10).toFixed(1)}}`
      return `${text}]`
    },
  },
  {
    name: '12 records in order',
    ratioMax: 1.25,
    pack: ordinal => {
      let text = `[{"bn":"urn:dev:ow:10e2073a0108${ordinal % 1000}:","bt":${1_699_999_000 + ordinal},"n":"temperature","u":"Cel","v":22.1}`
      for (let record = 1; record < 12; record++) {
        text += `,{"n":"${['humidity', 'voltage', 'current', 'pressure'][record % 4]}","u":"${['%RH', 'V', 'A', 'Pa'][record % 4]}","v":${(1.2 + ((ordinal + record) % 50) / 10).toFixed(1)}}`
      }
      return `${text}]`
    },
  },
]

const envelope: Envelope = {
  channel: 'channel',
  subtopic: '',
  publisher: 'publisher',
  protocol: 'http',
  contentType: 'application/senml+json',
  createdUs,
  createdRestNs: 0,
}

/** One object for all messages, as in the pipeline. */
const origin = { at: logPartition(0, 0), offset: 0, channel: 'channel', subtopic: '', publisher: 'publisher', protocol: 'http' }

/** Prints a line for each kind of pack. */
export async function bench(): Promise<void> {
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  const transformer = openSenmlJson()
  let kept: unknown
  const batch = new RecordBatch()
  const parse = (payload: Uint8Array): void => {
    kept = JSON.parse(utf8.decode(payload))
  }
  const resolve = (payload: Uint8Array): void => {
    if (batch.rowCount >= batchRows) batch.clear()
    batch.beginMessage(origin)
    transformer.decode(payload, envelope, batch)
    batch.endMessage()
  }

  console.log('senml json, medians           parse ns   rows ns   ns a row   ratio   at most')
  for (const { name, ratioMax, pack } of cases) {
    const payloads = Array.from({ length: 1000 }, (_, ordinal) => new TextEncoder().encode(pack(ordinal)))
    const parsed: number[] = []
    const resolved: number[] = []
    for (let turn = 0; turn < turns; turn++) {
      parsed.push(callNs(parse, payloads, turnMs))
      resolved.push(callNs(resolve, payloads, turnMs))
    }
    // Turn by turn, so that a change of the machine's speed affects both.
    const ratios = resolved.map((rowsNs, turn) => rowsNs / parsed[turn]!)
    const rows = (JSON.parse(utf8.decode(payloads[0])) as unknown[]).length
    const [parseNs, rowsNs] = [median(parsed), median(resolved)]
    console.log(
      `${name.padEnd(28)}${parseNs.toFixed(0).padStart(10)}${rowsNs.toFixed(0).padStart(10)}${(rowsNs / rows).toFixed(0).padStart(11)}` +
        `${median(ratios).toFixed(2).padStart(8)}${ratioMax.toFixed(2).padStart(10)}`,
    )
  }
  if (kept === undefined) throw new Error('nothing was parsed')
}

if (import.meta.main) await bench()
