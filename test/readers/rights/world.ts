// A made-up world: users, their channels and things, who is connected to what, and what was published.

import { randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import type { AccessControl } from '../../../control-plane/client.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import type { StoredRow } from '../../conformance/reader/oracle.ts'

/** By number: a thing or a channel of somebody, a thing on a channel. */
export interface Plan {
  readonly channelOwners: readonly number[]
  readonly thingOwners: readonly number[]
  readonly connections: readonly (readonly [thing: number, channel: number])[]
  readonly messages: readonly Message[]
}

/** A thing may have published and be connected no longer. */
interface Message {
  readonly channel: number
  readonly thing: number
  readonly format: 'messages' | 'weather'
  readonly subtopic: string
  readonly name: string
  readonly value: number
  readonly timeUs: number
}

const users = 3
const channels = 3
const things = 4
export const startUs = 1_790_000_000_000_000

const user = fc.nat({ max: users - 1 })
const channel = fc.nat({ max: channels - 1 })
const thing = fc.nat({ max: things - 1 })

export const plans: fc.Arbitrary<Plan> = fc.record({
  channelOwners: fc.array(user, { minLength: channels, maxLength: channels }),
  thingOwners: fc.array(user, { minLength: things, maxLength: things }),
  connections: fc.uniqueArray(fc.tuple(thing, channel), { maxLength: 8, selector: String }),
  messages: fc.array(
    fc.record({
      channel,
      thing,
      format: fc.constantFrom('messages', 'weather'),
      subtopic: fc.constantFrom('', 'a', 'a.b'),
      name: fc.constantFrom('n', 'm'),
      // Sums of them are exact.
      value: fc.integer({ min: -40, max: 40 }).map(eighths => eighths / 8),
      timeUs: fc.integer({ min: 0, max: 20 }).map(hours => startUs + hours * 7_200_000_000),
    }),
    { maxLength: 60 },
  ),
})

export interface World {
  readonly access: AccessControl
  readonly channels: readonly string[]
  readonly things: readonly { readonly id: string; readonly key: string }[]
  readonly tokens: readonly string[]
  readonly stored: readonly StoredRow[]
  readonly batch: RecordBatch
}

/** The plan with ids of its own. `offset` is where its messages begin in partition 0 of the log. */
export function build(plan: Plan, offset: number): World {
  const channelIds = plan.channelOwners.map(() => randomUUID() as string)
  const known = plan.thingOwners.map(() => ({ id: randomUUID() as string, key: randomUUID() as string }))
  const tokens = Array.from({ length: users }, (_, nth) => `token.${nth}.${randomUUID()}`)
  const connected = new Set(plan.connections.map(([of, to]) => `${known[of]!.id} ${channelIds[to]}`))
  const access: AccessControl = {
    async authorize({ credential: { scheme, secret }, channel: asked }) {
      if (scheme === 'Thing') {
        const at = known.findIndex(({ key }) => key === secret)
        if (at < 0) return { allowed: false, reason: 'unauthenticated' }
        const { id } = known[at]!
        if (!connected.has(`${id} ${asked}`)) return { allowed: false, reason: 'forbidden' }
        return { allowed: true, publisher: id, owner: String(plan.thingOwners[at]) }
      }
      const at = tokens.indexOf(secret)
      if (at < 0) return { allowed: false, reason: 'unauthenticated' }
      if (plan.channelOwners[channelIds.indexOf(asked)] !== at) return { allowed: false, reason: 'forbidden' }
      return { allowed: true, publisher: null, owner: String(at) }
    },
    deletedChannels: async () => [],
    onChange: () => () => undefined,
  }
  const batch = new RecordBatch()
  const stored = plan.messages.map((message, nth) =>
    append(batch, message, offset + nth, channelIds[message.channel]!, known[message.thing]!.id),
  )
  batch.cover(logPartition(0, 0), offset, offset + plan.messages.length)
  return { access, channels: channelIds, things: known, tokens, stored, batch }
}

function append(batch: RecordBatch, message: Message, offset: number, channelId: string, publisher: string): StoredRow {
  const { format, name, value, timeUs } = message
  const isDocument = format !== 'messages'
  const subtopic = isDocument ? [message.subtopic, format].filter(part => part !== '').join('.') : message.subtopic
  const protocol = 'http'
  batch.beginMessage({ at: logPartition(0, 0), offset, channel: channelId, subtopic, publisher, protocol })
  if (isDocument) batch.appendDocument(0, format, timeUs, 0, { name, value })
  else batch.appendRecord(0, name, undefined, timeUs, ValueKind.number, value, undefined, Number.NaN, Number.NaN)
  batch.endMessage()
  const origin = { channel: channelId, subtopic, publisher, protocol, position: (1n << 56n) | BigInt(offset), index: 0 }
  if (isDocument) {
    const payloadText = JSON.stringify({ name, value })
    return { format, row: { kind: 'document', ...origin, createdNs: BigInt(timeUs) * 1000n, payloadText } }
  }
  const absent = {
    unit: undefined,
    stringValue: undefined,
    boolValue: undefined,
    dataValue: undefined,
    sum: undefined,
    updateTime: undefined,
  }
  return { format, row: { kind: 'senml', ...origin, name, timeUs, value, ...absent } }
}
