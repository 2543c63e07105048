// Whatever happens to the store and the dead letters, every acknowledged message is stored once or dead-lettered, and the ledger says so.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { outgoing } from '../message.ts'
import { pack, text } from './numbers.ts'
import { deadOffsets, makeWorld, startWriter, stored } from './parts.ts'

const message = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('good' as const), rows: fc.integer({ min: 1, max: 4 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('empty', 'undecodable', 'refused', 'filtered', 'keyless'), rows: fc.constant(0) }),
  },
)
const failure = fc.option(
  fc.record({ errorClass: fc.constantFrom('transient', 'transient', 'fenced'), when: fc.constantFrom('before', 'commit') }),
  { nil: undefined },
)
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('append' as const), messages: fc.array(message, { maxLength: 12 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('fail' as const), failures: fc.array(failure, { maxLength: 4 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('restart', 'letters away', 'letters back', 'wait') }) },
)

test('after any sequence of messages, failures and restarts every message is stored once or dead-lettered', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 14 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 5 }),
      async (steps, rows, chunkMessagesMax) => {
        const world = makeWorld()
        world.store.refuses = row => (row.value! < 0 ? 'negative' : undefined)
        const settings = { batch: { rows, ageMs: 1 }, chunkMessagesMax, subjects: ['channels.c1.>'] }
        const expected: number[] = []
        const dead: number[] = []
        let offset = 0
        let { writer } = await startWriter(world, settings)
        for (const step of steps) {
          if (step.do === 'append') {
            for (const { kind, rows } of step.messages) {
              const values = Array.from({ length: rows }, (_, index) => offset * 10 + index)
              if (kind === 'good') await world.log.append([pack(...values)])
              else if (kind === 'empty') await world.log.append([pack()])
              else if (kind === 'undecodable') await world.log.append([text('no')])
              else if (kind === 'refused') await world.log.append([pack(-1)])
              else if (kind === 'filtered') await world.log.append([outgoing({ channel: 'other' })])
              else await world.log.append([outgoing({ channel: '' })])
              expected.push(...values)
              if (kind === 'undecodable' || kind === 'refused' || kind === 'keyless') dead.push(offset)
              offset++
            }
          } else if (step.do === 'fail') world.store.failures.push(...(step.failures as typeof world.store.failures))
          else if (step.do === 'letters away') world.deadLetters.failure = new LogUnavailableError('away')
          else if (step.do === 'letters back') world.deadLetters.failure = undefined
          else if (step.do === 'wait') await new Promise(resolve => setTimeout(resolve, 3))
          else {
            world.deadLetters.failure = undefined
            await writer.stop()
            ;({ writer } = await startWriter(world, settings))
          }
        }
        world.deadLetters.failure = undefined
        world.store.failures.length = Math.min(world.store.failures.length, 6)
        await expect.poll(() => world.log.committed.get('writer') ?? 0, { interval: 1 }).toBe(offset)
        await writer.stop()

        expect(stored(world.store)).toEqual(expected)
        // After fencing and restarts, messages that were dead-lettered before the batch became final are read again, so letters may be duplicated.
        expect([...new Set(deadOffsets(world.deadLetters))].sort((a, b) => a - b)).toEqual(dead)
        const counts = writer.counts().get(logPartition(0, 0))
        if (counts !== undefined) {
          const { received, stored, empty, filtered, duplicate, deadLettered, inFlight } = counts
          expect(stored + empty + filtered + duplicate + deadLettered + inFlight).toBe(received)
          expect(inFlight).toBe(0)
        }
      },
    ),
    { numRuns: 60 },
  )
})
