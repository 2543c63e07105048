// `./sluice erase` beside a writer, on PostgreSQL and, if deep, on all stores: it counts first, deletes what it counted and no more, goes on after a kill, and `verify`, `trace`
// and replays know of it; and of what a retention of channels and formats deletes.

import { ConfigResourceTypes } from 'kafkajs'
import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '../../pipeline/kafka/log.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import { storeKind } from '../../roles/stores/index.ts'
import { storeOptions } from '../../roles/stores/options.ts'
import { storeNameList } from '../../roles/stores/store.ts'
import { loadWriterOptions } from '../../roles/writer/options.ts'
import type { Erasure } from '../../sinks/erasure.ts'
import { firstOf } from '../depth.ts'
import { logSettings, silent } from '../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../pipeline/message.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { runSluice, startTool, untilReady } from './process.ts'
import { openSiteOn, type Site, shortWaits } from './site.ts'
import { missingStores, storeSites } from './stores/index.ts'

const messages = 1_200
const [erased, kept] = ['thing-1', 'thing-2']
/** Each way: long enough that a kill mostly finds the erasure at work. */
const storeLatencyMs = 150
/** Ten years, since the messages are of 2023. */
const retentionMs = '315360000000'

function bytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value))
}

/** In turn of both things; of each a dead letter, documents, and records of several channels and times. */
function message(number: number): OutgoingMessage {
  const origin = { channel: `c${number % 3}`, publisher: number % 2 === 0 ? erased : kept }
  if (number < 2) return outgoing({ ...origin, payload: bytes('no pack') })
  if (number % 5 === 0) {
    const payload = bytes({ id: `m${number}m`, part: 0, at: { on: true, value: number } })
    return outgoing({ ...origin, payload, contentType: 'application/json', subtopic: 'engine' })
  }
  return outgoing({ ...origin, payload: bytes([{ n: `m${number}m`, v: number, t: 1_700_000_000 + number * 100 }]) })
}

async function publish(site: Site, from: number, to: number): Promise<string[]> {
  const log = await openKafkaLog(logSettings(site.kafka.brokers, site.topic), silent)
  const positions = await log.append(Array.from({ length: to - from }, (_, at) => message(from + at)))
  await log.close()
  return positions.map(({ partition, offset }) => `${site.topic}-${partition}-${offset}`)
}

async function rowsBy(site: Site): Promise<Record<string, number>> {
  const counts: Record<string, number> = { [erased]: 0, [kept]: 0 }
  for await (const { text } of site.rows()) counts[text.split(' ')[1]!]!++
  return counts
}

/** The channels and formats that have rows. */
async function leftOf(site: Site): Promise<string[]> {
  const found = new Set<string>()
  for await (const { table, text } of site.rows()) found.add(`${text.split(' ')[0]} ${table}`)
  return [...found].sort()
}

for (const name of firstOf(storeNameList)) {
  describeUnlessMissing(`an erasure: ${name}`, missingKafka() ?? missingStores[name](), () => {
    test('counts, deletes beside a writer, goes on after a kill, and leaves nothing that verify misses or a replay stores', async () => {
      const site = await openSiteOn(storeSites[name], { partitions: 2, environment: { ...shortWaits, SVC_WORKERS_COUNT: '1' } })
      onTestFinished(() => site.close())
      await site.tools.admin.alterConfigs({
        validateOnly: false,
        resources: [{ type: ConfigResourceTypes.TOPIC, name: site.topic, configEntries: [{ name: 'retention.ms', value: retentionMs }] }],
      })
      await untilReady(await site.start(0))
      const ids = await publish(site, 0, messages)
      expect(await site.untilStored(await site.logEnds())).toBe(true)
      const [letter, keptLetter, stored, keptOne] = ids as [string, string, string, string]
      const half = messages / 2 - 1
      const tool = (...words: string[]) => runSluice(words, site.direct)
      const erase = (...words: string[]) => tool('erase', name, '--publisher', erased, ...words)

      expect(await erase()).toEqual({
        code: 0,
        printed: expect.stringContaining(`found: ${half} rows and 1 dead letter of publisher ${erased}`),
      })
      expect((await erase()).printed).toMatch(
        /the log messages has 1200 messages .* \(retention\.ms = 315360000000\)[^]*the log messages\.dead-letters\.\w+ has 2 messages .* without a limit of time\nnothing was erased: add --yes/,
      )
      expect(await rowsBy(site)).toEqual({ [erased]: half, [kept]: half })
      expect(await tool('erase', name, '--list')).toEqual({ code: 0, printed: 'nothing was erased\n' })

      site.store.proxy.latency(storeLatencyMs)
      const killed = startTool(['erase', name, '--publisher', erased, '--yes'], { ...site.direct, ...site.store.environment })
      await expect
        .poll(async () => (await tool('erase', name, '--list', '--json')).printed, { interval: 20, timeout: 60_000 })
        .toContain(erased)
      killed.kill()
      await killed.ended
      site.store.proxy.latency(0)
      const publishing = publish(site, messages, messages + 500)
      const report = await erase('--yes', '--json')
      await publishing
      expect(report.code, report.printed).toBe(0)
      expect(JSON.parse(report.printed)).toMatchObject({ erased: true, absent: [] })
      expect(await site.untilStored(await site.logEnds())).toBe(true)
      // What the thing has published meanwhile is erased by the next one, if it is not yet.
      expect((await erase('--yes')).code).toBe(0)
      expect(await rowsBy(site)).toEqual({ [erased]: 0, [kept]: half + 250 })
      const notes = (await tool('erase', name, '--list', '--json')).printed.trim().split('\n')
      const noted = notes.map(line => JSON.parse(line) as Erasure)
      // The erasure that was killed may have marked the letter, but not counted it.
      expect(noted.reduce((sum, { deadLetters }) => sum + deadLetters, 0)).toBeLessThanOrEqual(1)
      expect(noted.every(({ endedMs }) => endedMs !== undefined)).toBe(true)

      const verified = await tool('verify', name, '--contents')
      expect(verified.code, verified.printed).toBe(0)
      expect(verified.printed).toMatch(/ \+ erased \d+;/)
      expect((await tool('trace', stored, name)).printed).toContain('no: erased on ')
      expect((await tool('trace', keptOne, name)).printed).toMatch(/stored {7}1 row\n/)
      const open = await tool('dlq', 'ls', '--json', '--store', name)
      expect(
        open.printed
          .trim()
          .split('\n')
          .map(line => `${site.topic}${(JSON.parse(line) as { id: string }).id.slice(1)}`),
      ).toEqual([keptLetter])
      const replayed = await tool('dlq', 'replay', letter, '--store', name)
      expect(replayed).toEqual({ code: 1, printed: expect.stringContaining('stays open: it was erased: drop it') })

      await site.stop(0, 'SIGKILL')
      await untilReady(await site.start(0))
      await publish(site, messages + 500, messages + 501)
      expect(await site.untilStored(await site.logEnds())).toBe(true)
      const again = await tool('verify', name)
      expect(again.code, again.printed).toBe(0)

      const before = new Date((1_700_000_000 + 600 * 100) * 1000).toISOString()
      expect((await tool('erase', name, '--channel', 'c1', '--before', before, '--yes')).code).toBe(0)
      const last = await tool('verify', name)
      expect(last.code, last.printed).toBe(0)
      expect((await tool('erase', name, '--list')).printed.match(/channel c1, before 2023-/g)).toHaveLength(1)

      const retention = { SVC_STORE_RETENTION_CHANNELS: 'c2:30', SVC_STORE_RETENTION_FORMATS: 'engine:9,other:1' }
      const options = loadWriterOptions(await storeOptions(name), { environment: { ...site.direct, ...retention } })
      const opened = await (await storeKind(name)).open(options.store, 'retention')
      onTestFinished(() => opened.close())
      expect(await leftOf(site)).toEqual(['c0 engine', 'c0 messages', 'c1 messages', 'c2 engine', 'c2 messages'])
      await opened.maintain()
      expect(await leftOf(site)).toEqual(['c0 messages', 'c1 messages'])
      const retained = await tool('verify', name, '--contents')
      expect(retained.code, retained.printed).toBe(0)
      expect((await tool('trace', ids[11]!, name)).printed).toMatch(/no: erased on .*by a retention/)
      expect((await tool('erase', name, '--list')).printed).toMatch(/ retention +channel c2, before /)
    })
  })
}
