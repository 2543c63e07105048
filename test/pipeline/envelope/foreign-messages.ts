// The messages of a load as another producer would write them: nested JSON documents, keyed by the device, without a header of ours.

import { documentText, type Expected, formats, type TestMessage } from '../../writer/messages.ts'
import type { Environment } from '../../writer/process.ts'

/** Where their parts are. Channels come from a field, so each is in all partitions. */
export const foreignLayout: Environment = {
  SVC_TRANSFORMER_FORMAT: 'json',
  SVC_ENVELOPE_CHANNEL: 'field:plant.id,key',
  SVC_ENVELOPE_PUBLISHER: 'key',
  SVC_ENVELOPE_SUBTOPIC: 'field:kind,const:readings',
  SVC_ENVELOPE_CREATED: 'field:sent',
}

const plants = 24
const devices = 5000
const encoder = new TextEncoder()

interface Kind {
  /** Of the device by default; null for none. */
  readonly key?: null
  readonly payload: string
  readonly expected: Expected
}

/** Of a thousand messages: how many of each kind, in this order. */
const shares: readonly (readonly [number, (number: number, epochSeconds: number) => Kind])[] = [
  [780, document],
  [200, documents],
  [8, cutOff],
  [4, withoutTime],
  [4, withoutChannel],
  [4, emptyDocuments],
]
const goodShare = 980

/** As `messageOf`; no store refuses any of them. */
export function foreignMessageOf(number: number, epochSeconds: number, isPoisoned: boolean): TestMessage {
  let share = (number * 617) % (isPoisoned ? 1000 : goodShare)
  const kind = shares.find(([size]) => (share -= size) < 0)![1]
  const { key = deviceOf(number), payload, expected } = kind(number, epochSeconds)
  return {
    expected,
    outgoing: {
      channel: key ?? '',
      // With a key as bytes nothing of the envelope is written.
      key: key === null ? null : encoder.encode(key),
      headers: [{ key: 'traceparent', value: `00-${number}` }],
      payload: encoder.encode(payload),
      subtopic: '',
      publisher: '',
      protocol: '',
      contentType: '',
      createdUs: 0,
      createdRestNs: 0,
    },
  }
}

const deviceOf = (number: number): string => `device-${number % devices}`

/** What another producer would send. `id`, `part` and `at` are in the text of a row. */
function nested(number: number, epochSeconds: number, part = 0) {
  return {
    id: `m${number}m`,
    part,
    sent: epochSeconds * 1000 - (number % 7_200_000),
    kind: formats[number % formats.length]!,
    plant: { id: `plant-${number % plants}`, line: { number: number % 7, name: 'Linie süd' } },
    at: { on: number % 2 === 0, value: number / 8 },
    axes: [{ x: number, y: [1.5, null] }, { x: -number }],
  }
}

function document(number: number, epochSeconds: number): Kind {
  const made = nested(number, epochSeconds)
  const envelope = { channel: made.plant.id, publisher: deviceOf(number), subtopic: made.kind }
  return {
    payload: JSON.stringify(made),
    expected: { table: made.kind, rows: [documentText({ ...envelope, payload: made })] },
  }
}

/** An array has no fields: its channel is the key, and its subtopic the default. */
function documents(number: number, epochSeconds: number): Kind {
  const made = [0, 1, 2].map(part => nested(number, epochSeconds, part))
  const envelope = { channel: deviceOf(number), publisher: deviceOf(number), subtopic: 'readings' }
  return {
    payload: JSON.stringify(made),
    expected: { table: 'readings', rows: made.map(payload => documentText({ ...envelope, payload })) },
  }
}

function cutOff(number: number): Kind {
  return { payload: `{"id":"m${number}m","plant":`, expected: { rule: 'json-syntax' } }
}

function withoutTime(number: number, epochSeconds: number): Kind {
  return { payload: JSON.stringify({ ...nested(number, epochSeconds), sent: 'soon' }), expected: { rule: 'created' } }
}

function withoutChannel(number: number): Kind {
  return { key: null, payload: JSON.stringify({ id: `m${number}m` }), expected: { rule: 'no-channel' } }
}

function emptyDocuments(): Kind {
  return { payload: '[]', expected: { empty: true } }
}
