// The guide for users of release 0.13: its commands are executed, and it names every older name.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readFleet } from '../../roles/tools/provision/fleet.ts'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { call } from './operator.ts'
import { administrator, startPlatform } from './platform.ts'

const root = join(import.meta.dirname, '../..')
const guide = readFileSync(join(root, 'docs/guides/from-0.13.md'), 'utf8')

/** A platform that serves older clients; it also plays the old platform, whose requests it accepts. */
async function start(): Promise<string> {
  const platform = await startPlatform({
    data: temporaryFolder(),
    environment: { SVC_COMPATIBILITY: '0.13', MF_PROVISION_LOG_LEVEL: 'info', SVC_ADMIN_PASSWORD: administrator.password },
  })
  expect(platform.printed()).toContain('MF_PROVISION_LOG_LEVEL: it is ignored: set SVC_LOGGING_LEVEL')
  onTestFinished(async () => void (await platform.stop()))
  return platform.url
}

test("its commands move a user's entities with ids, keys and connections, and list the gateways for sluice provision", async () => {
  const [old, here] = await Promise.all([start(), start()])
  const account = '{"email":"ann@example.com","password":"correct horse battery"}'
  const post = async (url: string, path: string, body: string, authorization?: string) =>
    call(url, 'POST', path, { body, type: 'application/json', ...(authorization === undefined ? {} : { authorization }) })
  await post(old, '/users', account)
  const tokenOf = async (url: string): Promise<string> => `Bearer ${String((await post(url, '/tokens', account)).json?.token)}`
  const ann = await tokenOf(old)
  const gateway = { type: 'gateway', external_id: 'gw-1', external_key: 'the key, of "gw-1"' }
  const things = Array.from({ length: 101 }, (_, at) => ({
    name: `thing ${at}`,
    key: `a-burnt-in-key-of-${at}`,
    ...(at === 0 ? { metadata: gateway } : {}),
  }))
  const ids: string[] = []
  for (const some of [things.slice(0, 100), things.slice(100)]) {
    const { json } = await post(old, '/things/bulk', JSON.stringify(some), ann)
    ids.push(...(json!.things as { id: string }[]).map(({ id }) => id))
  }
  const channels = (await post(old, '/channels/bulk', '[{"name":"a"},{"name":"b","metadata":{"type":"data"}}]', ann)).json!.channels as {
    id: string
  }[]
  await post(old, '/connect', JSON.stringify({ channel_ids: [channels[1]!.id], thing_ids: ids.slice(0, 2) }), ann)

  const cwd = temporaryFolder()
  const outputs = await runBlocks(extractBlocks(guide, 'move'), {
    cwd,
    replace: {
      'https://old.example': old,
      'http://127.0.0.1:8080': here,
      './sluice': `'${root}/sluice'`,
      '"…"': `"${administrator.password}"`,
    },
  })
  expect(outputs[0]).toMatch(/101 things\.ids\s+2 channels\.ids/)
  const moved = await tokenOf(here)
  const get = async (path: string) => (await call(here, 'GET', path, { authorization: moved })).json!
  expect(outputs[2]).toMatch(/1 device: 1 valid[^]*1 device: 1 created/)
  // The gateway was mapped, too, and has its own thing.
  expect(await get('/things?limit=1')).toMatchObject({ total: 102 })
  expect(await get(`/things/${ids[100]}`)).toMatchObject({ name: 'thing 100', key: 'a-burnt-in-key-of-100' })
  expect((await get(`/things/${ids[0]}`))['metadata']).toEqual({ type: 'gateway', external_id: 'gw-1' })
  expect(await get(`/channels/${channels[1]!.id}`)).toMatchObject({ name: 'b', metadata: { type: 'data' } })
  expect(await get(`/channels/${channels[1]!.id}/things`)).toMatchObject({ total: 2 })
  expect(await get(`/channels/${channels[0]!.id}/things`)).toMatchObject({ total: 0 })
  expect(await readFleet(join(cwd, 'fleet.csv'))).toEqual([
    { externalId: 'gw-1', externalKey: gateway.external_key, name: 'thing 0', line: 2 },
  ])
})

test('a check of an older file prints what the guide shows', async () => {
  const [printed] = await runBlocks(extractBlocks(guide, 'names'), { cwd: temporaryFolder(), replace: { './sluice': `'${root}/sluice'` } })
  const [, said] = /<!-- run:names -->[\s\S]*?```sh[\s\S]*?```\n\n```\n([\s\S]*?)```/.exec(guide) ?? []
  expect(printed!.trim()).toBe(said!.trim())
})

test('it names every older name', () => {
  const [tables] = readFileSync(join(root, 'control-plane/provisioning/older-names.ts'), 'utf8').split('export interface Notes')
  const names = [...tables!.matchAll(/\b(mf_\w+): |^ {2}(\w+): |'(MF_PROVISION_\w+)'/gm)].map(match => match[1] ?? match[2] ?? match[3]!)
  expect(new Set(names).size).toBe(40)
  expect(names.filter(name => !guide.includes(`\`${name}\``))).toEqual([])
})
