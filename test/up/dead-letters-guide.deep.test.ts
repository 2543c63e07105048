// The guide to dead letters: its commands are executed.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { call, expectStatus, makeSite, publish } from './operator.ts'
import { administrator, startedFolder, startPlatform } from './platform.ts'

const root = join(import.meta.dirname, '../..')
const guide = readFileSync(join(root, 'docs/guides/dead-letters.md'), 'utf8')

test('its commands list, show, replay and drop letters, and print what the guide shows', async () => {
  await using folder = await startedFolder()
  const start = (more = {}) => startPlatform({ data: folder.path, environment: more })
  let platform = await start({ SVC_STORE_FORMATS_PER_CHANNEL_MAX: '1' })
  const site = await makeSite(platform.url)
  await expectStatus(publish(platform.url, site, '[{"n":"a","v":1,"vs":"two"}]'), 202)
  for (const format of ['first', 'second']) {
    const path = `/channels/${site.channel}/messages/${format}`
    await expectStatus(call(platform.url, 'POST', path, { authorization: site.device, body: { speed: 1 } }), 202)
  }
  await expect.poll(async () => (await (await fetch(`${platform.url}/metrics`)).text()).includes('error_code="format-limit"')).toBe(true)
  await platform.stop()
  platform = await start()
  const cwd = temporaryFolder()
  // As the first start makes it.
  mkdirSync(join(cwd, 'data'))
  writeFileSync(join(cwd, 'data/admin-password'), administrator.password)
  const [listed, shown, replayed, dropped] = await runBlocks(extractBlocks(guide, 'dead-letters'), {
    cwd,
    replace: { './sluice': `'${root}/sluice'`, 'http://127.0.0.1:8080': platform.url, 'admin@sluice.local': administrator.email },
  })
  const [, table] = /dlq ls --url[^\n]*\n```\n\n```\n([\s\S]*?)```/.exec(guide) ?? []
  expect(listed!.trim()).toBe(table!.trim().replaceAll('5b7c0f0e-6c0d-4d8e-9d67-2a3f1c9b8a10', site.channel))
  expect(shown).toContain('[{"n":"a","v":1,"vs":"two"}]')
  const [, said] = /--rule format-limit --url[^\n]*\n```\n\n```\n([\s\S]*?)```/.exec(guide) ?? []
  expect(replayed!.trim()).toBe(said!.trim())
  expect(dropped).toMatch(/^1 dead letter dropped\n/m)
  expect(dropped).toMatch(/^1-0-0 +dropped /m)
  expect(dropped).toMatch(/of the dead-lettered, 1 were replayed and are stored[\s\S]*ok: 3 messages/)
  await platform.stop()
})
