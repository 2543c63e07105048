// A property: wherever a follower stops, and however little it takes at a time, it gets every record once, in order.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { StreamOffset } from '../../../pipeline/live/messages.ts'
import { openFakeTopic } from './fake-topic.ts'
import { keep, openLive } from './follower.ts'

const partitions = 3

const steps = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constant('append' as const),
        partition: fc.nat(partitions - 1),
        rows: fc.integer({ min: 1, max: 4 }),
        mine: fc.boolean(),
      }),
    },
    // Reconnects this many records before the last one, or at the offset that a heartbeat gives.
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('return' as const), back: fc.nat(3), atHeartbeat: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('pause' as const), ms: fc.nat(8) }) },
  ),
  { minLength: 1, maxLength: 40 },
)

test('every record comes once and in the order of its partition, across any interruptions', async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.infiniteStream(fc.integer({ min: 1, max: 5 })), async (sequence, spaces) => {
      const topic = openFakeTopic(partitions)
      const live = openLive(topic)
      const rowsAtOnce = (): number => spaces.next().value ?? 1
      const received: string[] = []
      const written: string[][] = [[], [], []]
      let began: StreamOffset
      let kept = await keep(live, 'mine', undefined, rowsAtOnce)
      began = kept.following.streamOffset()
      let serial = 0
      for (const step of sequence) {
        if (step.kind === 'append') {
          const names = Array.from({ length: step.rows }, () => `p${step.partition}-${serial++}`)
          if (step.mine) written[step.partition]!.push(...names)
          await topic.append(step.partition, step.mine ? 'mine' : 'other', names)
        } else if (step.kind === 'pause') {
          await new Promise(resolve => setTimeout(resolve, step.ms))
        } else {
          const { streamOffset, count } = step.atHeartbeat
            ? { streamOffset: kept.following.streamOffset(), count: kept.names.length }
            : behind(kept.names.length - step.back)
          kept.following.stop()
          received.push(...kept.names.slice(0, count))
          kept = await keep(live, 'mine', streamOffset, rowsAtOnce)
          began = streamOffset
        }
      }
      // The last record of each partition: whatever came twice would be before it.
      for (const [partition, names] of written.entries()) {
        names.push(`p${partition}-last`)
        await topic.append(partition, 'mine', [`p${partition}-last`])
      }
      await kept.until(written.flat().length - received.length)
      received.push(...kept.names)
      await live.close()
      const orders = written.map((_, partition) => received.filter(name => name.startsWith(`p${partition}-`)))
      expect(orders).toEqual(written)
      expect(kept.lost.times).toBe(0)

      /** The offset after this many of the records since the last interruption; with none, the offset of that interruption. */
      function behind(wanted: number): { streamOffset: StreamOffset; count: number } {
        const count = Math.max(wanted, 0)
        return count === 0 ? { streamOffset: began, count } : { streamOffset: kept.streamOffsets[count - 1]!, count }
      }
    }),
    { numRuns: 60 },
  )
})
