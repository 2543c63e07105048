// Shared by the benchmarks of Kafka's record batches: messages as devices send them, a loop that reads them, and the CPU time of a message.

import type { OutgoingMessage } from '../pipeline/log.ts'
import type { RawChunk } from '../pipeline/source.ts'

export const messagesABatch = 1000
const turnMs = 40

/** Ids like UUIDs. */
function id(kind: string, ordinal: number): string {
  return `${kind}f0f0b5-2f0c-4a7f-a7a4-${String(ordinal).padStart(12, '0')}`
}

/** A batch of messages with one SenML record of about 80 bytes each, from this number of things in a tenth as many channels. */
export function messagesOf(ordinal: number, things: number): OutgoingMessage[] {
  return Array.from({ length: messagesABatch }, (_, at) => {
    const message = ordinal * messagesABatch + at
    const thing = (Math.imul(message + 1, 0x9e3779b1) >>> 0) % things
    const value = `[{"n":"urn:dev:mac:0024befffe${String(thing).padStart(6, '0')}:temperature","u":"Cel","v":${20 + (message % 97) / 10}}]`
    return {
      channel: id('0f', thing % Math.ceil(things / 10)),
      subtopic: 'room.temperature',
      publisher: id('b8', thing),
      protocol: 'http',
      contentType: 'application/senml+json',
      createdUs: 1_700_000_000_000_000 + message * 1237,
      createdRestNs: message % 1000,
      payload: Buffer.from(value),
    }
  })
}

/** Reads every part of a message that a writer reads. Returns a number that depends on all of them, so that nothing is optimised away. */
export function walk(chunk: RawChunk): number {
  const cursor = chunk.cursor()
  const { message } = cursor
  let read = 0
  while (cursor.next()) {
    read += message.channel.length + message.subtopic.length + message.publisher.length + message.protocol.length
    read += message.contentType.length + message.createdUs + message.createdRestNs + message.payload.byteLength + message.offset
  }
  return read
}

/** CPU time of this thread, so that other processes on the machine count less. */
function cpuUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/** Nanoseconds of CPU time for each message, over one turn through all batches. */
export async function messageNs<Given>(each: (given: Given) => unknown, given: readonly Given[]): Promise<number> {
  const startUs = cpuUs()
  let calls = 0
  while (cpuUs() - startUs < turnMs * 1000) {
    for (const one of given) {
      const result = each(one)
      if (result instanceof Promise) await result
    }
    calls += given.length
  }
  return ((cpuUs() - startUs) * 1000) / (calls * messagesABatch)
}
