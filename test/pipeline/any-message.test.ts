// Whatever bytes a message has, its worker goes on: the message is stored or a dead letter that tools can read, and so is the next one.
// SEED=<seed> repeats a run.

import { once } from 'node:events'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { deadLetterHeadersMax } from '../../pipeline/dead-letters/headers.ts'
import { parseAt } from '../../pipeline/dead-letters/parse.ts'
import { fullDeadLetterOf } from '../../pipeline/dead-letters/summary.ts'
import { openLaidOutCursor } from '../../pipeline/envelope/cursor.ts'
import { layoutOf } from '../../pipeline/envelope/layout.ts'
import type { EnvelopeOptions } from '../../pipeline/envelope/options.ts'
import { withOriginalTimes } from '../../pipeline/envelope/source.ts'
import { unknownSchema } from '../../pipeline/kafka/confluent/faults.ts'
import { type Decoding, openFramedCursor } from '../../pipeline/kafka/confluent/framed-cursor.ts'
import { jsonPlan } from '../../pipeline/kafka/confluent/record-plan.ts'
import { encodeBatch as encodeForLog } from '../../pipeline/kafka/producer/batch.ts'
import { MessageRefusedError, messageSize } from '../../pipeline/log.ts'
import { headerLimitRule, type RawChunk, type RawCursor } from '../../pipeline/source.ts'
import type { TopicReader } from '../../pipeline/topic-reader.ts'
import type { Writer } from '../../pipeline/writer/writer.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { type HostileMessage, hostileLayout, hostileMessage, hostilePlans, hostileTimes, recordOf } from './hostile-messages.ts'
import { ourId } from './kafka/confluent/framed-messages.ts'
import { type BatchFields, encodeBatch, fetch } from './kafka/records/record-batches.ts'
import { positionsOf } from './positions.ts'
import { makeWorld, startWriter, stored } from './writer/parts.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)

const at = logPartition(0, 0)
const neverRevoked = new AbortController().signal

/** As the registry is asked before: every other id is one that it does not know. */
class Known extends Map<number, Decoding> {
  override get(id: number): Decoding {
    return super.get(id) ?? unknownSchema(id)
  }
}

interface Reading {
  readonly options: EnvelopeOptions
  /** The schema of framed messages, or jsonPlan; absent for messages without frames. */
  readonly frame?: number | 'json'
}

/** The cursor of a writer with these options. */
function decoded(cursor: RawCursor, { options, frame }: Reading): RawCursor {
  const plan = frame === 'json' ? jsonPlan : frame === undefined ? undefined : hostilePlans[frame]
  const unframed = plan === undefined ? cursor : openFramedCursor(cursor, new Known([[ourId, plan]]))
  const layout = layoutOf(options)
  return layout === undefined ? unframed : openLaidOutCursor(unframed, { layout, topic: 'messages', payloadBytesMax: 10_000 })
}

/** What a decoder gets of each message, by offset. */
function messagesOf(chunks: readonly RawChunk[], reading: Reading): Map<number, object> {
  const messages = new Map<number, object>()
  for (const chunk of chunks) {
    const cursor = decoded(chunk.cursor(), reading)
    while (cursor.next()) {
      const { offset, fault, payload, ...envelope } = cursor.message
      expect(Number.isSafeInteger(envelope.createdUs)).toBe(true)
      messages.set(offset, { ...envelope, rule: fault?.rule, payload: Buffer.from(payload).toString('base64') })
    }
  }
  return messages
}

/** Runs a writer until it has settled all chunks. Resolves with its counts and the record batches of its dead letters. */
async function settle(chunks: readonly RawChunk[], reading: Reading, letterBytesMax: number) {
  const world = makeWorld()
  const sets: Buffer[] = []
  const append = world.deadLetters.append.bind(world.deadLetters)
  world.deadLetters.append = async messages => {
    if (messages.some(message => messageSize(message) > letterBytesMax)) throw new MessageRefusedError('it is too large')
    sets.push(encodeForLog(messages, { producerId: 1n, epoch: 0, sequence: 0 }, 1_700_000_200_000))
    return append(messages)
  }
  const end = chunks.at(-1)!.to
  const settled = Promise.withResolvers<void>()
  const watched: { writer?: Writer } = {}
  const { writer } = await startWriter(world, {
    wrap: source => ({
      ...source,
      async *chunks(signal, onStart) {
        onStart?.(positionsOf({ 0: 0 }), neverRevoked, positionsOf({ 0: end }))
        for (const chunk of chunks) yield { ...chunk, cursor: () => decoded(chunk.cursor(), reading) }
        await once(signal, 'abort')
      },
      commit: async positions => void (positions.get(at) === end && settled.resolve()),
    }),
    onStateChange() {
      if (watched.writer?.state() === 'retrying') settled.reject(watched.writer.failure())
    },
  })
  watched.writer = writer
  writer.done.catch(settled.reject)
  await settled.promise
  await writer.stop()
  return { counts: writer.counts().get(at)!, values: stored(world.store), sets }
}

/** A topic of dead letters with these record batches, each at offset 0. */
function topicOf(sets: readonly Buffer[]): TopicReader {
  return {
    name: 'messages.dead-letters.writer',
    id: 'id',
    partitions: 1,
    bounds: async () => new Map(),
    async *read() {
      for (const set of sets) yield* fetch(set, { at, headersMax: deadLetterHeadersMax })
    },
    close: async () => undefined,
  }
}

const lettersBytesMax = [1200, 6000, 1 << 20]

test.each<[string, fc.Arbitrary<Reading>]>([
  ['where Sluice writes its envelope', fc.constant({ options: {} })],
  ['whose envelope is anywhere', fc.record({ options: hostileLayout })],
  ['in frames', fc.record({ options: fc.oneof(fc.constant({}), hostileLayout), frame: fc.constantFrom(0, 1, 2, 'json' as const) })],
])(`messages %s are stored or dead letters, which a replay reads as the writer did (seed ${seed})`, async (_name, readings) => {
  const messages = fc.array(hostileMessage, { minLength: 1, maxLength: 5 })

  async function settles(reading: Reading, sent: readonly HostileMessage[], times: BatchFields, letterBytesMax: number): Promise<void> {
    const next = encodeBatch([{ key: 'c', value: '[7]' }], { baseOffset: sent.length })
    const chunks = fetch(Buffer.concat([encodeBatch(sent.map(recordOf), times), next]), { at })
    const { counts, values, sets } = await settle(chunks, reading, letterBytesMax)
    expect(counts.received).toBe(sent.length + 1)
    expect(counts.stored + counts.empty + counts.deadLettered).toBe(sent.length + 1)
    if (Object.keys(reading.options).length === 0 && reading.frame === undefined) expect(values.at(-1)).toBe(7)

    const read = messagesOf(chunks, reading)
    const offsets = new Set<number>()
    for await (const chunk of withOriginalTimes(topicOf(sets)).read(0, 0, 1)) {
      const letters = chunk.cursor()
      const replayed = messagesOf([chunk], reading)
      while (letters.next()) {
        const deadLetter = parseAt(letters)
        if (deadLetter?.kind !== 'letter') throw new Error('a dead letter cannot be read')
        const { original, rule, shortenedBytes } = deadLetter
        offsets.add(original.offset)
        fullDeadLetterOf({ deadLetter, cursor: letters, partition: 0, state: 'open', partial: false })
        // Nothing but its size is a reason to leave content out.
        if (letterBytesMax === lettersBytesMax.at(-1)) expect(shortenedBytes).toBeUndefined()
        // A tombstone's letter has an empty value: it must not delete anything.
        const isWhole = shortenedBytes === undefined && rule !== headerLimitRule && rule !== 'no-value'
        if (isWhole) expect(replayed.get(letters.message.offset)).toEqual(read.get(original.offset))
      }
    }
    expect(offsets.size).toBe(counts.deadLettered)
  }

  await fc.assert(fc.asyncProperty(readings, messages, hostileTimes, fc.constantFrom(...lettersBytesMax), settles), { seed, numRuns: 60 })
})
