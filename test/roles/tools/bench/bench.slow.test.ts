// `sluice bench` with real servers: a load that a writer stored is found complete on each store, and so is what was deleted or doubled afterwards.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '../../../../pipeline/kafka/log.ts'
import { storeNameList } from '../../../../roles/stores/store.ts'
import type { CheckReport } from '../../../../roles/tools/bench/check.ts'
import type { LoadReport } from '../../../../roles/tools/bench/load.ts'
import { type LoadMessage, type LoadPlan, messagesOf } from '../../../../roles/tools/bench/messages.ts'
import { firstOf } from '../../../depth.ts'
import { logSettings, silent } from '../../../pipeline/kafka/stored-messages.ts'
import { describeUnlessMissing } from '../../../servers/describe-with.ts'
import { missingKafka } from '../../../servers/install/kafka.ts'
import { missingPostgres } from '../../../servers/install/postgres.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'
import { call } from '../../../up/operator.ts'
import { startPlatform } from '../../../up/platform.ts'
import { type Environment, runSluice, untilReady } from '../../../writer/process.ts'
import { openSite, openSiteOn, type Site, shortWaits } from '../../../writer/site.ts'
import { missingStores, storeSites } from '../../../writer/stores/index.ts'
import type { StoreSite } from '../../../writer/stores/store-site.ts'
import { administrator, ingestWords, spawnRole, startApi, token, whenReady } from '../../processes.ts'

const oneWorker = { ...shortWaits, SVC_WORKERS_COUNT: '1' }

/** The tool with ledgers in a folder of its own. */
function toolWith(environment: Environment, ...store: string[]) {
  const folder = temporaryFolder()
  const words = (ledger: string): string[] => ['--ledger', join(folder, ledger)]
  const check = (ledger: string, ...more: string[]) => runSluice(['bench', 'check', ...store, ...words(ledger), ...more], environment)
  const load = async (ledger: string, ...more: string[]): Promise<LoadReport> => {
    const { code, printed } = await runSluice(['bench', 'load', ...words(ledger), '--json', ...more], environment)
    expect(code, printed).toBe(0)
    return JSON.parse(printed) as LoadReport
  }
  const checked = async (ledger: string, expected: number): Promise<CheckReport> => {
    const { code, printed } = await check(ledger, '--json')
    expect(code, printed).toBe(expected)
    return JSON.parse(printed) as CheckReport
  }
  const messages = (ledger: string): LoadMessage[] => {
    const [plan] = readFileSync(join(folder, ledger), 'utf8').split('\n', 1)
    return [...messagesOf(JSON.parse(plan!) as LoadPlan)]
  }
  return { check, load, checked, messages }
}

const rowsOf = (messages: readonly LoadMessage[]): number => messages.reduce((sum, message) => sum + message.rows, 0)

/** With a writer that runs. */
async function started<Store extends StoreSite>(opening: Promise<Site<Store>>): Promise<Site<Store>> {
  const site = await opening
  onTestFinished(() => site.close())
  await untilReady(await site.start(0))
  return site
}

for (const name of firstOf(storeNameList)) {
  describeUnlessMissing(`bench: ${name}`, missingKafka() ?? missingStores[name](), () => {
    test('a load of every kind is complete; then what is erased is lost, and what is appended again is doubled', async () => {
      const site = await started(openSiteOn(storeSites[name], { partitions: 3, environment: oneWorker }))
      const { load, check, checked, messages } = toolWith(site.direct, name)
      const kinds = 'record-senml=70,record-cbor,record-json,pack-senml=9,pack-cbor,pack-json,truck-senml=9,truck-cbor,truck-json=7'
      const sent = await load('all', '--messages', '2000', '--devices', '50', '--channels', '10', '--mix', kinds, '--invalid', '2%')
      expect(sent).toMatchObject({ sent: 2000, acknowledged: 2000 })
      expect(await site.untilStored(await site.logEnds())).toBe(true)
      const all = messages('all')
      const invalid = all.filter(({ rows }) => rows === 0)
      expect(invalid.length).toBeGreaterThan(10)
      const stored = { planned: 2000, acknowledged: 2000, rejected_invalid: invalid.length, rejected_valid: 0, unacknowledged: 0 }
      const whole = { expected: sent.rows, stored: sent.rows, distinct: sent.rows, lost: 0, doubled: 0, other: 0 }
      expect(await checked('all', 0)).toEqual({
        messages: { ...stored, stored: 2000 - invalid.length, lost: 0, doubled: 0 },
        rows: whole,
        in_flight: 0,
        first: [],
        holds: true,
      })
      expect((await check('all')).printed).toMatch(/\nok: nothing is lost, and nothing is doubled\n$/)

      const [{ publisher }, twice] = all.filter(({ rows }) => rows > 1) as [LoadMessage, LoadMessage]
      const erased = all.filter(message => message.publisher === publisher && message.rows > 0)
      expect(erased).not.toContain(twice)
      expect((await runSluice(['erase', name, '--publisher', publisher, '--yes'], site.direct)).code).toBe(0)
      const log = await openKafkaLog(logSettings(site.kafka.brokers, site.topic), silent)
      await log.append([twice])
      await log.close()
      expect(await site.untilStored(await site.logEnds())).toBe(true)
      const changed = await checked('all', 1)
      const lost = rowsOf(erased)
      expect(changed.rows).toEqual({
        ...whole,
        stored: sent.rows - lost + twice.rows,
        distinct: sent.rows - lost,
        lost,
        doubled: twice.rows,
      })
      expect(changed.messages).toMatchObject({ lost: erased.length, doubled: 1 })
      expect((await check('all')).printed).toContain(`, lost ${lost}, doubled ${twice.rows}\n`)
    })
  })
}

test('the store of a stopped platform is checked in its folder, which a running one keeps to itself', async () => {
  const data = join(temporaryFolder(), 'data')
  const environment = { SVC_ADMIN_EMAIL: administrator.email, SVC_ADMIN_PASSWORD: administrator.password }
  const { load, check, checked, messages } = toolWith({}, 'relational', '--data', data)
  let platform = await startPlatform({ data, environment })
  const { json } = await call(platform.url, 'POST', '/tokens', { body: administrator })
  const access = ['--token', String(json?.['token'])]
  const own = ['--devices', '6', '--channels', '2', '--mix', 'record-senml,pack-cbor,truck-json', '--invalid', '5%', '--to', platform.url]
  const sent = await load('up', '--messages', '200', ...own, ...access)
  expect(await check('up')).toEqual({ code: 2, printed: expect.stringMatching(/^the data folder \S+ is in use by process \d+: stop it/) })
  await platform.stop()
  const whole = await checked('up', 0)
  expect(whole.rows).toEqual({ expected: sent.rows, stored: sent.rows, distinct: sent.rows, lost: 0, doubled: 0, other: 0 })
  expect(whole).toMatchObject({ messages: { planned: 200, acknowledged: 200 }, in_flight: 0 })
  expect(whole.messages.rejected_invalid).toBeGreaterThan(0)

  platform = await startPlatform({ data, environment })
  const erased = messages('up').filter(({ publisher, rows }) => publisher === messages('up')[0]!.publisher && rows > 0)
  const words = ['erase', 'relational', '--publisher', erased[0]!.publisher, '--yes', '--url', platform.url, ...access]
  expect((await runSluice(words, {})).code).toBe(0)
  await platform.stop('SIGKILL')
  expect(await checked('up', 1)).toMatchObject({ messages: { lost: erased.length }, rows: { lost: rowsOf(erased) } })
})

describeUnlessMissing('bench through ingest', missingKafka() ?? missingPostgres(), () => {
  test('things publish a load over HTTP, and at its times over MQTT; each is found in the store beside the other', async () => {
    const site = await started(openSite({ partitions: 3, environment: oneWorker }))
    const { load, checked } = toolWith(site.direct, 'relational')
    const api = await startApi(await site.store.postgres.createDatabase())
    const ingest = await whenReady(
      spawnRole(ingestWords, {
        SVC_CONTROL_URL: api.internalUrl,
        SVC_CONTROL_TOKEN: token,
        SVC_INTERNAL_LISTEN: '127.0.0.1:0',
        SVC_LOG_BROKERS: site.kafka.brokers.join(','),
        SVC_LOG_TOPIC: site.topic,
        SVC_MQTT_ENABLED: 'true',
        SVC_MQTT_PORT: '0',
      }),
    )
    const [, mqtt] = /^mqtt on (mqtt:\S+)$/m.exec(ingest.printed())!
    const signedIn = await call(api.url, 'POST', '/tokens', { body: administrator })
    const owner = ['--url', api.url, '--token', String(signedIn.json?.['token'])]
    const own = ['--devices', '6', '--channels', '2', '--mix', 'record-senml,pack-cbor,truck-json', '--invalid', '5%', ...owner]
    const overHttp = await load('http', '--messages', '150', '--to', ingest.url, ...own)
    const overMqtt = await load('mqtt', '--messages', '100', '--rate', '400', '--to', mqtt!, ...own)
    expect([overHttp.acknowledged, overMqtt.acknowledged]).toEqual([150, 100])
    expect(overMqtt.seconds).toBeGreaterThan(0.2)
    expect(await site.untilStored(await site.logEnds())).toBe(true)
    const [http, other] = [await checked('http', 0), await checked('mqtt', 0)]
    expect(http).toMatchObject({ messages: { acknowledged: 150 }, rows: { distinct: overHttp.rows, other: overMqtt.rows } })
    expect(other).toMatchObject({ messages: { acknowledged: 100 }, rows: { distinct: overMqtt.rows, other: overHttp.rows } })
    expect(http.messages.rejected_invalid + other.messages.rejected_invalid).toBeGreaterThan(0)
  })
})
