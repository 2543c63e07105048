// A writer whose earlier version replayed through a separate topic: waiting messages are open again, and are reported until they are stored.

import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '../../pipeline/kafka/log.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import { oldReplay, oldResolution } from '../pipeline/dead-letters/old-replays.ts'
import { logSettings, silent } from '../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../pipeline/message.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { runSluice, untilReady } from './process.ts'
import { openSite, shortWaits } from './site.ts'

describeUnlessMissing('upgrades', missingKafka() ?? missingPostgres(), () => {
  test('three waiting replays are open again after the start, are logged once, and verify reports them until they are stored', async () => {
    const site = await openSite({
      partitions: 1,
      environment: { ...shortWaits, SVC_TRANSFORMER_FORMAT: 'json', SVC_STORE_FORMATS_PER_CHANNEL_MAX: '1', SVC_WORKERS_COUNT: '1' },
    })
    onTestFinished(() => site.close())
    const append = async (topic: string, messages: readonly OutgoingMessage[]): Promise<void> => {
      const log = await openKafkaLog(logSettings(site.kafka.brokers, topic, { partitions: 1 }), silent)
      await log.append(messages)
      await log.close()
    }
    const documents = ['first', 'second', 'third', 'fourth'].map(subtopic =>
      outgoing({ payload: new TextEncoder().encode('{"speed":1}'), contentType: 'application/json', subtopic }),
    )
    const today = {
      SVC_LOG_BROKERS: site.kafka.brokers.join(),
      SVC_LOG_TOPIC: site.topic,
      SVC_TRANSFORMER_FORMAT: 'json',
      ...site.store.directEnvironment,
    }
    const verify = () => runSluice(['verify', 'relational'], today)
    await untilReady(await site.start(0))
    await append(site.topic, documents)
    expect(await site.untilStored(new Map([[0, 4]]))).toBe(true)
    expect(await site.stop(0)).toBe(0)

    // An earlier version's tool replayed three letters, and its writer stopped before it read them.
    await append(
      `${site.topic}.replays.relational`,
      documents.slice(1).map((document, at) => oldReplay(document, at + 1)),
    )
    await append(
      `${site.topic}.dead-letters.relational`,
      [1, 2, 3].map(offset => oldResolution(offset)),
    )
    expect((await verify()).printed).toMatch(/WRONG +replay missing 3\n/)

    const told =
      /3 dead letters were reopened, because an earlier release had not finished replaying: store them with \.\/sluice dlq replay/
    let writer = await site.start(0)
    await untilReady(writer)
    expect(writer.printed()).toMatch(told)
    const reported = await verify()
    expect(reported.printed).toMatch(/of the dead-lettered, 3 are open/)
    expect(reported.code).toBe(0)
    expect(await site.stop(0)).toBe(0)
    writer = await site.start(0)
    await untilReady(writer)
    expect(writer.printed()).not.toMatch(told)

    const replayed = await runSluice(['dlq', 'replay', '--all'], today)
    expect(replayed).toMatchObject({ code: 0, printed: expect.stringMatching(/^3 dead letters replayed/) })
    const stored = await verify()
    expect(stored.printed).toMatch(/of the dead-lettered, 3 were replayed and are stored/)
    expect(stored.code).toBe(0)
  })
})
