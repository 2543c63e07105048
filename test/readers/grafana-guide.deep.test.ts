// The queries that the guide to Grafana shows, with what Grafana puts in the place of its macros.

import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { maintain } from '../../sinks/postgres/schema.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { openPlatform } from '../control-plane/platform.ts'
import { extractBlocks } from '../readme/blocks.ts'
import { describeWithInflux } from '../servers/influx.ts'
import { describeWithOwnPostgres } from '../servers/postgres.ts'
import { makeSite } from '../up/operator.ts'
import { openSite as openInfluxSite } from './influxdb/site.ts'
import { openEmbeddedSite, openSite as openPostgresSite } from './postgres/site.ts'

const guide = readFileSync(new URL('../../docs/guides/grafana.md', import.meta.url), 'utf8')
const [from, to] = ['2023-11-14T22:00:00Z', '2023-11-14T23:00:00Z'] as const
const fromUs = Date.parse(from) * 1000

const queries = (name: string, replace: Readonly<Record<string, string>>): string[] =>
  extractBlocks(guide, name).map(({ text }) => Object.entries(replace).reduce((query, [macro, put]) => query.replaceAll(macro, put), text))

/** Two numbers in the first minute and one in the second, one outside of the hour and one of another channel, and two documents. */
function batch(payloads: readonly object[]): RecordBatch {
  const filled = new RecordBatch()
  const records = [
    ['c1', 0, 1],
    ['c1', 30, 2],
    ['c1', 60, 5],
    ['c1', 7200, 9],
    ['c2', 0, 100],
  ] as const
  let offset = 0
  const begin = (channel: string, subtopic: string): void =>
    filled.beginMessage({ at: logPartition(0, 0), offset: offset++, channel, subtopic, publisher: 't1', protocol: 'http' })
  for (const [channel, second, value] of records) {
    begin(channel, '')
    filled.appendRecord(0, 'a', undefined, fromUs + second * 1e6, ValueKind.number, value, undefined, Number.NaN, Number.NaN)
    filled.endMessage()
  }
  for (const [nth, payload] of payloads.entries()) {
    begin('c1', 'weather')
    filled.appendDocument(0, 'weather', fromUs + nth * 7200e6 + 1e6, 0, payload as never)
    filled.endMessage()
  }
  filled.cover(logPartition(0, 0), 0, offset)
  return filled
}

test('the queries of PostgreSQL return the means and the documents of one channel in the time range', async () => {
  const site = await openEmbeddedSite()
  onTestFinished(() => site.close())
  await site.store(batch([{ wind: { speed: 7.5 } }, { wind: { speed: 8 } }]))
  const ns = (text: string): string => `${Date.parse(text)}000000`
  const [means, documents] = queries('grafana-postgres', {
    '$__timeGroupAlias(time, $__interval)': 'floor(extract(epoch from time)/60)*60 AS "time"',
    '$__timeFilter(time)': `time BETWEEN '${from}' AND '${to}'`,
    '$__unixEpochNanoFilter(created)': `created >= ${ns(from)} AND created <= ${ns(to)}`,
    $channel: 'c1',
  })
  const rows = await site.database.query<{ metric: string; value: number }>(means!)
  expect(rows.map(({ metric, value }) => [metric, value])).toEqual([
    ['a', 1.5],
    ['a', 5],
  ])
  expect(await site.database.query(documents!)).toMatchObject([{ metric: 't1', value: 7.5 }])
})

describeWithOwnPostgres('PostgreSQL', postgres => {
  const page = readFileSync(new URL('../../docs/stores/postgres.md', import.meta.url), 'utf8')
  const block = (name: string): string => extractBlocks(page, name)[0]!.text
  const rightsRefused = { sqlState: '42501' }

  /** A store and a control plane in one database, and a connection with the role of the documented rights. */
  async function openShared(documents: readonly object[] = [{ wind: { speed: 7.5 } }]) {
    const url = await postgres.createDatabase()
    const own = await openServer({ url, applicationName: 'owner', connectionsMax: 4 })
    const site = await openPostgresSite(own, async () => undefined)
    const platform = await openPlatform(own)
    const { channel, thing } = await makeSite(platform.url)
    await site.store(batch(documents))
    // A role is known in all databases of the server.
    const [role] = await own.query(`SELECT FROM pg_roles WHERE rolname = 'dashboards'`)
    const rights = role === undefined ? block('dashboards') : block('dashboards').replace(/^CREATE ROLE.*$/m, '')
    await own.execute(`${rights} ${block('names')}`)
    const of = new URL(url)
    of.username = 'dashboards'
    const dashboards = await openServer({ url: of.href, applicationName: 'grafana', connectionsMax: 1 })
    onTestFinished(async () => {
      await dashboards.close()
      await platform.close()
      await site.close()
    })
    return { own, site, dashboards, channel, thing }
  }

  test('the role for dashboards reads messages, formats and names, also of months and formats that come later, and does nothing else', async () => {
    const { own, site, dashboards, channel, thing } = await openShared()
    const made = await maintain(own, { now: new Date(Date.now() + 40 * 86_400_000) })
    expect(made).not.toEqual([])
    const later = new RecordBatch()
    later.beginMessage({ at: logPartition(0, 1), offset: 0, channel: 'c1', subtopic: 'later', publisher: 't1', protocol: 'http' })
    later.appendDocument(0, 'later', fromUs + 1, 999, {})
    later.endMessage()
    later.cover(logPartition(0, 1), 0, 1)
    await site.store(later)
    expect(await dashboards.query(`SELECT name FROM sluice.of_publisher('c1', 't1')`)).toHaveLength(4)
    expect(await dashboards.query(`SELECT FROM sluice.${made[0]!}`)).toEqual([])
    const selected = `SELECT time::text FROM formats.later WHERE sluice.of_publisher(channel, publisher, 'c1', 't1')`
    expect(await dashboards.query(selected)).toEqual([{ time: '2023-11-14 22:00:00.000001+00' }])
    expect(await dashboards.query('SELECT channel FROM sluice.channel_names')).toEqual([{ channel }])
    expect(await dashboards.query('SELECT publisher FROM sluice.thing_names')).toEqual([{ publisher: thing }])
    const forbidden = [
      'DELETE FROM sluice.records',
      'UPDATE sluice.series SET is_unused = true',
      'INSERT INTO sluice.records SELECT * FROM sluice.records',
      'TRUNCATE formats.weather',
      'DELETE FROM sluice.offsets',
      'CREATE TABLE formats.own ()',
      'CREATE TABLE sluice.own ()',
      'CREATE TABLE public.own ()',
      'DROP TABLE formats.later',
      'SELECT FROM control_plane.things',
      'SELECT FROM control_plane.users',
    ]
    for (const statement of forbidden) await expect(dashboards.query(statement), statement).rejects.toMatchObject(rightsRefused)
  })

  /** Asks the queries of a dashboard as Grafana would; returns the values of its variables, and the rows of its panels by their title. */
  async function readDashboard(name: string, dashboards: Database) {
    const { templating, panels } = JSON.parse(readFileSync(new URL(`../../deploy/grafana/${name}`, import.meta.url), 'utf8')) as Dashboard
    const ask = (sql: string): Promise<Record<string, unknown>[]> => {
      const filled = Object.entries({
        '$__timeGroupAlias(time, $__interval)': 'floor(extract(epoch from time)/60)*60 AS "time"',
        "$__timeGroupAlias(time, '1m')": 'floor(extract(epoch from time)/60)*60 AS "time"',
        '$__timeFilter(time)': `time BETWEEN '${from}' AND '${to}'`,
        '$__unixEpochNanoFilter(created)': `created >= ${fromUs}000 AND created <= ${Date.parse(to)}000000`,
        '${format:doublequote}': '"weather"',
        '${channel:sqlstring}': `'c1'`,
        '${publisher:sqlstring}': `'t1','t2'`,
        '${name:sqlstring}': `'a','b'`,
        '${field:sqlstring}': `'gust','wind/speed'`,
      }).reduce((query, [macro, put]) => query.replaceAll(macro, put), sql)
      expect(filled).not.toMatch(/\$/)
      return dashboards.query(filled)
    }
    const variables: [string, unknown[]][] = []
    for (const { name, type, query } of templating.list)
      if (type === 'query') variables.push([name, (await ask(query)).flatMap(row => Object.values(row))])
    const answers = new Map<string, Record<string, unknown>[]>()
    for (const { title, targets } of panels) answers.set(title, await ask(targets[0]!.rawSql))
    return { variables, answers }
  }

  const inMinutes = (rows: readonly Record<string, unknown>[], column: string): number[] => rows.map(row => Number(row[column]))

  test('each query of the dashboard of messages answers for its channel, publishers, names and time range', async () => {
    const { dashboards } = await openShared()
    const { variables, answers } = await readDashboard('sluice-messages.json', dashboards)
    expect(variables).toEqual([
      ['channel', ['c1', 'c2']],
      ['publisher', ['t1']],
      ['name', ['a']],
    ])
    expect([...answers.keys()]).toEqual(['Age of the newest record', 'Messages a minute', 'Values', 'Last values'])
    const [age] = answers.get('Age of the newest record')!
    expect(Number(age!['age'])).toBeCloseTo((Date.now() * 1000 - fromUs) / 1e6 - 7200, -2)
    expect(inMinutes(answers.get('Messages a minute')!, 'messages')).toEqual([2, 1])
    expect(answers.get('Values')!.map(({ metric, value }) => [metric, value])).toEqual([
      ['a', 1.5],
      ['a', 5],
    ])
    expect(answers.get('Last values')).toMatchObject([{ publisher: 't1', subtopic: '', name: 'a', value: '5', unit: null }])
  })

  test('each query of the dashboard of documents answers for its format, channel, publishers, fields and time range', async () => {
    const documents = [{ wind: { speed: 7.5, from: 'W' } }, { wind: { speed: 8 } }]
    const { dashboards } = await openShared(documents)
    const { variables, answers } = await readDashboard('sluice-documents.json', dashboards)
    expect(variables).toEqual([
      ['format', ['weather']],
      ['channel', ['c1']],
      ['publisher', ['t1']],
      ['field', ['wind/speed']],
    ])
    expect([...answers.keys()]).toEqual(['Age of the newest document', 'Documents a minute', 'Values', 'Newest documents'])
    const [age] = answers.get('Age of the newest document')!
    expect(Number(age!['age'])).toBeCloseTo((Date.now() * 1000 - fromUs) / 1e6 - 7201, -2)
    expect(inMinutes(answers.get('Documents a minute')!, 'documents')).toEqual([1])
    expect(answers.get('Values')!.map(({ metric, value }) => [metric, value])).toEqual([['wind/speed', 7.5]])
    expect(answers.get('Newest documents')).toMatchObject([
      { publisher: 't1', subtopic: 'weather', document: '{"wind": {"from": "W", "speed": 7.5}}' },
    ])
  })
})

interface Dashboard {
  readonly templating: { readonly list: readonly { readonly name: string; readonly type: string; readonly query: string }[] }
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly rawSql: string }[] }[]
}

describeWithInflux('InfluxDB', influx => {
  test('its query returns the means of one channel in the time range', async () => {
    const site = await openInfluxSite(influx)
    onTestFinished(() => site.close())
    await site.store(batch([]))
    const [flux] = queries('grafana-influxdb', {
      'v.defaultBucket': JSON.stringify(new URL(site.options.url).searchParams.get('bucket')),
      'v.timeRangeStart': from,
      'v.timeRangeStop': to,
      'v.windowPeriod': '1m',
      '${channel}': 'c1',
    })
    const response = await fetch(`${influx.url}/api/v2/query?org=${influx.org}`, {
      method: 'POST',
      headers: { authorization: `Token ${influx.token}`, 'content-type': 'application/vnd.flux', accept: 'application/csv' },
      body: flux!,
    })
    const csv = await response.text()
    const [header, ...lines] = csv.trim().split('\r\n')
    const value = header!.split(',').indexOf('_value')
    expect(lines.map(line => line.split(',')[value])).toEqual(['1.5', '5'])
  })
})
