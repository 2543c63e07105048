// The guides for operators: their commands are executed on a platform in one process.

import { readFileSync } from 'node:fs'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { undocumentedMetrics } from '../tidy/metrics.ts'
import { call, expectStatus, makeSite, publish, readUntil } from './operator.ts'
import { administrator, disposableFolder, startedFolder, startPlatform } from './platform.ts'

const root = join(import.meta.dirname, '../..')

const blocksOf = (document: string, name: string) => extractBlocks(readFileSync(join(root, document), 'utf8'), name)

const sluice = { './sluice': `'${root}/sluice'` }

test('operate: health, metrics, verify, trace and dead letters are as shown', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  await expectStatus(publish(platform.url, site, [{ n: 'a', v: 1 }]), 202)
  await readUntil(platform.url, site, 1)
  // The lag appears after the first request for the end of the log.
  await expect.poll(async () => (await call(platform.url, 'GET', '/metrics')).text).toMatch(/^consumer_lag_seconds\{/m)
  // As the first start makes it.
  await mkdir(join(folder.path, 'data'))
  await writeFile(join(folder.path, 'data/admin-password'), administrator.password)
  const [health, metrics, looked] = await runBlocks(blocksOf('docs/guides/operate.md', 'operate'), {
    cwd: folder.path,
    replace: { ...sluice, 'http://127.0.0.1:8080': platform.url, 'admin@sluice.local': administrator.email },
  })
  expect(health).toMatch(/^\{"status":"pass"\}\{"status":"pass"\}\{"status":"pass",.*"database":/)
  expect(metrics).toMatch(/^dependency_outage\{component_id="relational",dependency="store"\} 0$/m)
  expect(metrics).toMatch(/^consumer_lag_seconds\{.*\} [\d.]+$/m)
  expect(looked).toMatch(/ok: 1 messages? [^]*message +1-0-0[^]*stored +1 row/)
  expect(undocumentedMetrics((await call(platform.url, 'GET', '/metrics')).text)).toEqual([])
  expect(await platform.stop()).toBe(0)
})

test('upgrade: the options are checked', async () => {
  await using folder = await disposableFolder()
  const [output] = await runBlocks(blocksOf('docs/guides/upgrade.md', 'upgrade'), { cwd: folder.path, replace: sluice })
  expect(output).toMatch(/^\d+\.\d+\.\d+\nok\n/)
})

test('backup and restore: the log fills in what the restored database lacks; a whole folder is restored unchanged', async () => {
  await using folder = await startedFolder()
  await using working = await disposableFolder()
  const run = (name: string) => runBlocks(blocksOf('docs/guides/backup-and-restore.md', name), { cwd: working.path })
  const data = join(working.path, 'data')
  await cp(folder.path, data, { recursive: true })
  let platform = await startPlatform({ data })
  const site = await makeSite(platform.url)
  await expectStatus(publish(platform.url, site, [{ n: 'before', v: 1 }]), 202)
  await readUntil(platform.url, site, 1)
  expect(await platform.stop()).toBe(0)
  await run('backup-up')

  platform = await startPlatform({ data })
  await expectStatus(publish(platform.url, site, [{ n: 'after', v: 2 }]), 202)
  await readUntil(platform.url, site, 2)
  expect(await platform.stop()).toBe(0)
  await run('restore-database')
  platform = await startPlatform({ data })
  const namesOf = async (count: number) => new Set((await readUntil(platform.url, site, count)).map(record => record['Name']))
  expect(await namesOf(2)).toEqual(new Set(['before', 'after']))
  expect(await platform.stop()).toBe(0)

  await run('restore-folder')
  platform = await startPlatform({ data })
  expect(await namesOf(1)).toEqual(new Set(['before']))
  expect(await platform.stop()).toBe(0)
})

test('other brokers: a device is admitted, and may publish', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path, environment: { SVC_MQTT_BROKERS: '127.0.0.1' } })
  const { device, thing, channel } = await makeSite(platform.url)
  const answers = await runBlocks(blocksOf('docs/guides/mqtt.md', 'brokers'), {
    cwd: folder.path,
    environment: { base: platform.url, key: device.replace('Thing ', ''), thing_id: thing, channel_id: channel },
  })
  expect(answers).toEqual(['{"result":"allow"}{"result":"allow"}', '{"ok":true}200\n{"ok":true}200\n'])
  expect(await platform.stop()).toBe(0)
})

test('Grafana: an API key reads the means of a channel as CSV', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  await expectStatus(
    publish(platform.url, site, [
      { bt: 1_700_000_000, n: 'a', v: 1 },
      { n: 'a', t: 1, v: 2 },
    ]),
    202,
  )
  await readUntil(platform.url, site, 2)
  const [, csv] = await runBlocks(blocksOf('docs/guides/grafana.md', 'grafana'), {
    cwd: folder.path,
    environment: { base: platform.url, token: site.owner.replace('Bearer ', ''), channel_id: site.channel },
  })
  const [header, line] = csv!.trim().split('\r\n')
  expect(header).toBe('Channel,Publisher,Subtopic,Name,Unit,Time,Value,Count')
  expect(line).toBe(`${site.channel},${site.thing},,a,,1699999800,1.5,2`)
  expect(await platform.stop()).toBe(0)
})
