// Publishers that append one message after another, and the check of the topic afterwards.

import { expect } from 'vitest'
import type { KafkaLog } from '../../../pipeline/kafka/log.ts'
import { type LogPosition, LogUnavailableError } from '../../../pipeline/log.ts'
import { outgoing } from '../message.ts'
import type { StoredMessage } from './stored-messages.ts'

export interface Acknowledged {
  readonly payload: string
  readonly position: LogPosition
}

/** Starts publishers that append one message after another until they are stopped, and never retry a refused one. */
export function publish(
  log: KafkaLog,
  publishers: number,
): { acknowledged: Acknowledged[]; refused: Set<string>; stop: () => Promise<void> } {
  const acknowledged: Acknowledged[] = []
  const refused = new Set<string>()
  const stopping = new AbortController()
  const one = async (publisher: number): Promise<void> => {
    for (let at = 0; !stopping.signal.aborted; at++) {
      const payload = `${publisher}-${at}`
      try {
        const [position] = await log.append([outgoing({ channel: `channel ${publisher}`, payload: Buffer.from(payload) })])
        acknowledged.push({ payload, position: position! })
      } catch (error) {
        if (!(error instanceof LogUnavailableError)) throw error
        refused.add(payload)
      }
    }
  }
  const all = Promise.all(Array.from({ length: publishers }, (_, publisher) => one(publisher)))
  return {
    acknowledged,
    refused,
    stop: async () => {
      stopping.abort()
      await all
    },
  }
}

/** Each acknowledged message is stored once, at its position; other messages are refused ones; each channel is in order. */
export function expectKept(stored: readonly StoredMessage[], acknowledged: readonly Acknowledged[], refused: ReadonlySet<string>): void {
  const at = new Map(stored.map(({ partition, offset, value }) => [`${partition}-${offset}`, value.toString()]))
  expect(acknowledged.filter(({ payload, position }) => at.get(`${position.partition}-${position.offset}`) !== payload)).toEqual([])
  const payloads = stored.map(({ value }) => value.toString())
  expect(new Set(payloads).size).toBe(payloads.length)
  const told = new Set(acknowledged.map(({ payload }) => payload))
  expect(payloads.filter(payload => !told.has(payload) && !refused.has(payload))).toEqual([])
  const last = new Map<string, number>()
  for (const payload of payloads.filter(payload => told.has(payload))) {
    const [publisher, number] = payload.split('-') as [string, string]
    expect(Number(number)).toBeGreaterThan(last.get(publisher) ?? -1)
    last.set(publisher, Number(number))
  }
}
