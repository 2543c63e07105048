// `./sluice dlq replay` is killed repeatedly during its work: in the end each dead letter is stored once, and none is open.

import { randomInt } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '../../pipeline/kafka/log.ts'
import { deadLettersTopic } from '../../pipeline/writer/dead-letters.ts'
import { storeNameList } from '../../roles/stores/store.ts'
import { openRandom } from '../fuzz/random.ts'
import { logSettings, silent } from '../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../pipeline/message.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { startTool, untilReady } from './process.ts'
import { openSiteOn, type Site, shortWaits } from './site.ts'
import { missingStores, storeSites } from './stores/index.ts'

const deadLetters = 500
const kills = 2
/** Each way. */
const storeLatencyMs = 50

for (const name of storeNameList) {
  describeUnlessMissing(`a killed replay: ${name}`, missingKafka() ?? missingStores[name](), () => {
    test('stores each dead letter once, however often it is killed and restarted', async () => {
      const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))
      const random = openRandom(seed, 'replays', 0)
      const environment = { ...shortWaits, SVC_WORKERS_COUNT: '1', SVC_STORE_FORMATS_MAX: '1' }
      const site = await openSiteOn(storeSites[name], { partitions: 3, environment })
      onTestFinished(() => site.close())
      await untilReady(await site.start(0))
      await refuseLetters(site)
      const endBefore = await lettersEnd(site)

      // Long enough that a batch is not over before a busy machine has killed its tool.
      site.store.proxy.latency(storeLatencyMs)
      const replay = () =>
        startTool(['dlq', 'replay', '--rule', 'format-limit', '--store', name], {
          ...site.direct,
          ...site.store.environment,
          SVC_STORE_FORMATS_MAX: '1000',
        })
      const killedAt: number[] = []
      let resolved = 0
      for (let nth = 0; nth < kills; nth++) {
        // A batch has at most 100 letters, so that some always remain for the next run.
        const more = resolved + random.below(80)
        const tool = replay()
        let said: string | undefined
        void tool.ended.then(({ code, printed }) => (said = `ended with ${code}: ${printed}`))
        await expect.poll(async () => said ?? (await lettersEnd(site)) - endBefore > more, { interval: 20 }).toBe(true)
        // Somewhere in the next batch.
        await wait(random.below(4 * storeLatencyMs))
        tool.kill()
        await tool.ended
        resolved = (await lettersEnd(site)) - endBefore
        killedAt.push(resolved)
      }
      const context = `seed ${seed} (SLUICE_TEST_SEED), killed when ${killedAt.join(', ')} were resolved`
      expect(resolved, context).toBeLessThan(deadLetters)
      const { code: endedWith, printed: said } = await replay().ended
      expect([endedWith, said], context).toEqual([0, expect.stringMatching(/dead letters? replayed/)])

      const places: string[] = []
      for await (const { table, partition, offset, index } of site.store.rows()) {
        if (table === 'late') places.push(`${partition}-${offset}-${index}`)
      }
      expect([places.length, new Set(places).size], context).toEqual([deadLetters, deadLetters])
      const { code, printed } = await site.verify()
      expect(code, `${context}\n${printed}`).toBe(0)
    })
  })
}

/** Creates only one format, so that messages of another one become dead letters. */
async function refuseLetters(site: Site): Promise<void> {
  const log = await openKafkaLog(logSettings(site.kafka.brokers, site.topic), silent)
  const json = (number: number, subtopic: string) =>
    outgoing({
      payload: new TextEncoder().encode(JSON.stringify({ id: `m${number}m`, part: 0, at: {} })),
      contentType: 'application/json',
      channel: `c${number % 7}`,
      subtopic,
    })
  await log.append([json(0, 'engine')])
  expect(await site.untilStored(await site.logEnds())).toBe(true)
  await log.append(Array.from({ length: deadLetters }, (_, number) => json(number, 'late')))
  await log.close()
  expect(await site.untilStored(await site.logEnds())).toBe(true)
}

/** The end of the dead-letter topic, in which each letter and each resolution is a message. */
async function lettersEnd({ tools, topic, writer }: Site): Promise<number> {
  const ends = await tools.admin.fetchTopicOffsets(deadLettersTopic(topic, writer))
  return ends.reduce((sum, { high }) => sum + Number(high), 0)
}
