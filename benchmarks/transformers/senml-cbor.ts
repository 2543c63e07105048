// Decoding SenML CBOR from bytes to rows, compared with JSON.parse of the same pack in JSON, and cbor-x on the same bytes.
//
// All three are measured in turns in one process, and each turn decodes many payloads in separate memory, like those of a log.
// The first ratio is what counts: how many times as fast as JSON.parse including its UTF-8 decoding.

import { Encoder } from 'cbor-x'
import type { Envelope } from '../../transformers/envelope.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { openSenmlCbor } from '../../transformers/senml/cbor/cbor.ts'
import { callNs, median } from '../median-time.ts'

const turns = 41
const turnMs = 15
const batchRows = 2000
const createdUs = 1_700_000_000_000_000

/** Target, relative to JSON.parse. */
const timesAsFastMin = 2

type Fields = Record<string, string | number>

/** Packs as in benchmarks/transformers/senml-json.ts. */
const cases: readonly { name: string; pack: (ordinal: number) => Fields[] }[] = [
  {
    name: 'single record',
    pack: ordinal => [{ n: `urn:dev:ow:10e2073a0108${String(ordinal % 1000).padStart(4, '0')}`, u: 'Cel', v: 20 + (ordinal % 97) / 10 }],
  },
  {
    name: 'single record with base name and time',
    pack: ordinal => [
      { bn: `urn:dev:ow:${ordinal % 1000}:`, bt: 1_699_999_000 + ordinal, n: 'temperature', u: 'Cel', v: 20 + (ordinal % 97) / 10 },
    ],
  },
  {
    name: '12 records, the first the newest',
    pack: ordinal => [
      { bn: `urn:dev:ow:10e2073a0108${ordinal % 1000}:`, bt: 1_699_999_000.001 + ordinal, bu: 'A', n: 'voltage', u: 'V', v: 120.1 },
      ...Array.from({ length: 11 }, (_, record) => ({ n: 'current', t: record - 11, v: (12 + ((ordinal + record) % 50)) / 10 })),
    ],
  },
  {
    name: '12 records in order',
    pack: ordinal => [
      { bn: `urn:dev:ow:10e2073a0108${ordinal % 1000}:`, bt: 1_699_999_000 + ordinal, n: 'temperature', u: 'Cel', v: 22.1 },
      ...Array.from({ length: 11 }, (_, record) => ({
        n: ['humidity', 'voltage', 'current', 'pressure'][record % 4]!,
        u: ['%RH', 'V', 'A', 'Pa'][record % 4]!,
        v: (12 + ((ordinal + record) % 50)) / 10,
      })),
    ],
  },
]

/** The integer labels of RFC 8428 §6. */
const integers: Readonly<Record<string, number>> = { bn: -2, bt: -3, bu: -4, n: 0, u: 1, v: 2, t: 6 }

const envelope: Envelope = {
  channel: 'channel',
  subtopic: '',
  publisher: 'publisher',
  protocol: 'http',
  contentType: 'application/senml+cbor',
  createdUs,
  createdRestNs: 0,
}

/** Decodes maps as maps, without its own extensions. */
const cborX = new Encoder({ useRecords: false, mapsAsObjects: false })

function cborOf(pack: readonly Fields[]): Uint8Array {
  const records = pack.map(fields => new Map(Object.entries(fields).map(([label, value]) => [integers[label]!, value])))
  return Uint8Array.from(cborX.encode(records))
}

/** One object for all messages, as in the pipeline. */
const origin = { at: logPartition(0, 0), offset: 0, channel: 'channel', subtopic: '', publisher: 'publisher', protocol: 'http' }

/** Prints a line for each kind of pack. */
export async function bench(): Promise<void> {
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  const transformer = openSenmlCbor()
  let kept: unknown
  const batch = new RecordBatch()
  const parse = (payload: Uint8Array): void => {
    kept = JSON.parse(utf8.decode(payload))
  }
  const generic = (payload: Uint8Array): void => {
    kept = cborX.decode(payload)
  }
  const resolve = (payload: Uint8Array): void => {
    if (batch.rowCount >= batchRows) batch.clear()
    batch.beginMessage(origin)
    transformer.decode(payload, envelope, batch)
    batch.endMessage()
  }

  console.log('senml cbor, medians                     parse ns   cbor-x ns   rows ns   ns a row   times parse   at least   times cbor-x')
  for (const { name, pack } of cases) {
    const packs = Array.from({ length: 1000 }, (_, ordinal) => pack(ordinal))
    const json = packs.map(each => new TextEncoder().encode(JSON.stringify(each)))
    const cbor = packs.map(cborOf)
    const parsed: number[] = []
    const decoded: number[] = []
    const resolved: number[] = []
    for (let turn = 0; turn < turns; turn++) {
      parsed.push(callNs(parse, json, turnMs))
      decoded.push(callNs(generic, cbor, turnMs))
      resolved.push(callNs(resolve, cbor, turnMs))
    }
    const [parseNs, genericNs, rowsNs] = [median(parsed), median(decoded), median(resolved)]
    // Turn by turn, so that a change of the machine's speed affects both.
    const timesAsFast = resolved.map((rowsNs, turn) => parsed[turn]! / rowsNs)
    const figures: [string, number][] = [
      [parseNs.toFixed(0), 10],
      [genericNs.toFixed(0), 12],
      [rowsNs.toFixed(0), 10],
      [(rowsNs / packs[0]!.length).toFixed(0), 11],
      [median(timesAsFast).toFixed(2), 14],
      [timesAsFastMin.toFixed(2), 11],
      [(genericNs / rowsNs).toFixed(2), 15],
    ]
    console.log(name.padEnd(38) + figures.map(([figure, width]) => figure.padStart(width)).join(''))
  }
  if (kept === undefined) throw new Error('nothing was parsed')
}

if (import.meta.main) await bench()
