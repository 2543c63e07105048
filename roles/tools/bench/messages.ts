// The messages of a load. They follow from its plan alone, so `check` makes them again, and a ledger holds only the plan and what was acknowledged.

import { Encoder } from 'cbor-x'
import { ToolError } from '../../../bin/streams.ts'
import { integerOfLabel } from '../../../transformers/senml/cbor/labels.ts'
import { fleetMeasurement, type Measurement, openRandom } from './measurement.ts'
import { openTrucks } from './trucks.ts'

const shapes = ['record', 'pack', 'truck'] as const
const encodings = ['senml', 'cbor', 'json'] as const
export type MessageKind = `${(typeof shapes)[number]}-${(typeof encodings)[number]}`
const messageKinds: readonly MessageKind[] = shapes.flatMap(shape => encodings.map(encoding => `${shape}-${encoding}` as const))

/** What a load consists of. The same plan gives the same messages. */
export interface LoadPlan {
  readonly seed: number
  readonly messages: number
  readonly devices: number
  readonly channels: number
  /** The kinds with their weights. */
  readonly mix: Readonly<Partial<Record<MessageKind, number>>>
  /** The share of messages that no writer can decode: 0 to 1. */
  readonly invalidShare: number
  /** When the first message is to be sent, microseconds since 1970, and the time from each to the next: at least one, so that none equals another. */
  readonly startUs: number
  readonly stepUs: number
  /** As in the envelope. */
  readonly protocol: string
  /** Those that a platform has given, in the order of their numbers; absent if any will do. */
  readonly channelIds?: readonly string[]
  readonly thingIds?: readonly string[]
}

export interface LoadMessage {
  readonly device: number
  /** How many rows it has in a store; 0 if it is invalid. */
  readonly rows: number
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  readonly contentType: string
  /** When it is to be sent. */
  readonly createdUs: number
  readonly createdRestNs: 0
  readonly payload: Uint8Array
}

const contentTypes = { senml: 'application/senml+json', cbor: 'application/senml+cbor', json: 'application/json' } as const

/**
 * Kinds with their weights: `record-senml=70,pack-cbor=30`.
 *
 * @throws ToolError
 */
export function parseMix(text: string): LoadPlan['mix'] {
  const parts = text.split(',').map(part => /^([a-z]+-[a-z]+)(?:=(\d{1,6}))?$/.exec(part))
  const mix = Object.fromEntries(parts.map(part => [part?.[1] ?? '', Number(part?.[2] ?? 1)]))
  const isKnown = Object.entries(mix).every(([kind, weight]) => messageKinds.some(known => known === kind) && weight > 0)
  if (isKnown) return mix
  throw new ToolError(`--mix takes kinds with weights, as in record-senml=70,pack-cbor=30; the kinds are ${messageKinds.join(', ')}`)
}

/** The messages in the order in which they are sent. */
export function* messagesOf(plan: LoadPlan): Generator<LoadMessage> {
  const { devices, channels, stepUs, startUs, protocol } = plan
  const random = openRandom(plan.seed)
  const kinds = Object.entries(plan.mix) as [MessageKind, number][]
  const weights = kinds.reduce((sum, [, weight]) => sum + weight, 0)
  const nextOfTruck = openTrucks(random, devices)
  for (let number = 0; number < plan.messages; number++) {
    const createdUs = startUs + Math.round(number * stepUs)
    let share = random() * weights
    const [kind] = kinds.find(([, weight]) => (share -= weight) < 0) ?? kinds[0]!
    const [shape, encoding] = kind.split('-') as [(typeof shapes)[number], (typeof encodings)[number]]
    const measurement = shape === 'truck' ? truckMeasurement() : fleetMeasurement(number % devices, createdUs, shape === 'pack', random)
    const isInvalid = random() < plan.invalidShare
    const { device, format } = measurement
    const payload = encoders[encoding](measurement)
    yield {
      device,
      rows: isInvalid ? 0 : encoding === 'json' ? 1 : measurement.fields.filter(({ value }) => value !== null).length,
      channel: plan.channelIds?.[device % channels] ?? idOf('a165', device % channels),
      subtopic: `bench.${format}`,
      publisher: plan.thingIds?.[device] ?? idOf('a166', device),
      protocol,
      contentType: contentTypes[encoding],
      createdUs,
      createdRestNs: 0,
      // What is cut off is neither JSON nor CBOR.
      payload: isInvalid ? payload.subarray(0, -1) : payload,
    }
  }

  /** Those that are missing took time as well. */
  function truckMeasurement(): Measurement {
    const { ordinal, ...entry } = nextOfTruck()
    return { ...entry, timeUs: startUs + Math.round(ordinal * stepUs) }
  }
}

const cbor = new Encoder({ useRecords: false, mapsAsObjects: false, variableMapSize: true })
const encoders: Readonly<Record<(typeof encodings)[number], (measurement: Measurement) => Uint8Array>> = {
  senml: measurement => Buffer.from(JSON.stringify(packOf(measurement))),
  cbor: measurement =>
    cbor.encode(
      packOf(measurement).map(record => new Map(Object.entries(record).map(([label, value]) => [integerOfLabel.get(label), value]))),
    ),
  json: measurement => Buffer.from(JSON.stringify(documentOf(measurement))),
}

/** A SenML pack (RFC 8428). */
function packOf({ name: device, timeUs, fields }: Measurement): object[] {
  const records = fields.filter(({ value }) => value !== null)
  return records.map(({ name, unit, seconds, value }, at) => ({
    ...(at === 0 ? { bn: `${device}:`, bt: timeUs / 1e6 } : {}),
    n: name,
    ...(unit === undefined ? {} : { u: unit }),
    ...(seconds === undefined ? {} : { t: seconds }),
    v: value,
  }))
}

/** Values of the same name are a list. Its own time keeps it apart from every other document. */
function documentOf({ name, tags, timeUs, fields }: Measurement): object {
  const document: Record<string, unknown> = { device: name, ...tags, sent_us: timeUs }
  for (const { name: field, value } of fields) document[field] = field in document ? [document[field], value].flat() : value
  return document
}

function idOf(kind: string, number: number): string {
  return `0f8fad5b-d9cb-469f-${kind}-${String(number).padStart(12, '0')}`
}
