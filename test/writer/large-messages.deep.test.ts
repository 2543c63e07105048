// Messages that are small when compressed and large when decoded, in one batch with others: they delay no other, and are accounted for.

import { CompressionTypes } from 'kafkajs'
import { expect, test } from 'vitest'
import { readTopic } from '../pipeline/kafka/stored-messages.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { untilReady } from './process.ts'
import { openSite, shortWaits, writerName } from './site.ts'

const mebibyte = 1024 * 1024
const good = (number: number) => ({ partition: 0, key: 'channel-1', value: JSON.stringify([{ n: `m${number}`, v: number }]) })

describeUnlessMissing('one compressed batch', missingKafka() ?? missingPostgres(), () => {
  test('with messages of mebibytes, and one of thousands of headers, is stored except for these, whose letters say where they are', async () => {
    const site = await openSite({ partitions: 1, environment: { ...shortWaits, SVC_WORKERS_COUNT: '1' } })
    try {
      await untilReady(await site.start(0))
      const headers = Object.fromEntries(Array.from({ length: 2000 }, (_, nth) => [`header-${nth}`, '']))
      await site.tools.producer.send({
        topic: site.topic,
        compression: CompressionTypes.GZIP,
        messages: [
          good(0),
          { ...good(1), value: Buffer.alloc(5 * mebibyte) }, // more than the queue of the dead-letter log
          { partition: 0, key: null, value: Buffer.alloc(2 * mebibyte) }, // more than its topic allows
          { ...good(3), headers },
          good(4),
        ],
      })
      expect(await site.untilStored(new Map([[0, 5]]))).toBe(true)
      const rows = await site.store.query<{ name: string }>('SELECT name FROM public.messages ORDER BY position')
      expect(rows.map(({ name }) => name)).toEqual(['m0', 'm4'])

      const deadLetters = (await readTopic(site.kafka.brokers, `${site.topic}.dead-letters.${writerName}`)).map(
        ({ headers: said, value, key }) => {
          const text = (name: string): string | undefined => said.findLast(([found]) => found === name)?.[1]?.toString()
          const shortened = Number(text('sluice.shortened') ?? 0)
          return {
            offset: text('sluice.offset'),
            rule: text('sluice.rule'),
            key: key?.toString(),
            bytes: value.length,
            headers: said.length < 30,
            shortened,
          }
        },
      )
      // One that was refused as part of a group is repeated, and counts once.
      const distinct = [...new Map(deadLetters.map(deadLetter => [deadLetter.offset, deadLetter])).values()]
      expect(distinct).toEqual([
        { offset: '1', rule: 'payload-size', key: 'channel-1', bytes: 0, headers: true, shortened: expect.closeTo(5 * mebibyte, -4) },
        { offset: '2', rule: 'no-key', key: undefined, bytes: 0, headers: true, shortened: expect.closeTo(2 * mebibyte, -4) },
        { offset: '3', rule: 'header-limit', key: 'channel-1', bytes: expect.any(Number), headers: true, shortened: 0 },
      ])
      expect(await site.verify()).toMatchObject({ code: 0 })
      expect(await site.stop(0)).toBe(0)
    } finally {
      await site.close()
    }
  })
})
