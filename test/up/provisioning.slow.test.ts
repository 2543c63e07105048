// A fleet of edge agents on a running platform: mapped by `sluice provision` with the example layout, and each fetches its configuration.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sluice } from '../bin/command.ts'
import { call, expectStatus } from './operator.ts'
import { startedFolder, startPlatform, administrator as user } from './platform.ts'

const layout = join(import.meta.dirname, '../../deploy/provision/edge-agent.toml')
const environment = {
  SVC_ADMIN_EMAIL: user.email,
  SVC_ADMIN_PASSWORD: user.password,
  SVC_PROVISION_CONFIG_PATH: layout,
  // As named in SPEC §5.
  SVC_PROVISION_USER: user.email,
  SVC_PROVISION_PASSWORD: user.password,
}
const device = (nth: number) => ({ external_id: `gateway-${nth}`, external_key: `external key of ${nth}`, name: `gateway ${nth}` })

test('a fleet is mapped with the configured credentials, repeatedly without duplicates, and its agents publish and acknowledge', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path, environment })
  const fleet = join(folder.path, 'fleet.json')
  const provision = (count: number, ...more: string[]) => {
    writeFileSync(fleet, JSON.stringify(Array.from({ length: count }, (_, nth) => device(nth))))
    return sluice(['provision', fleet, '--url', platform.url, ...more])
  }
  expect(await provision(20, '--dry-run')).toMatchObject({ code: 0, errors: '' })
  expect(String((await provision(10)).output)).toMatch(/^10 devices: 10 created; report: /)
  expect(String((await provision(20)).output)).toMatch(/^20 devices: 10 created, 10 done before; report: /)
  expect(String((await provision(20, '--report', join(folder.path, 'other.csv'))).output)).toMatch(
    /^20 devices: 20 already present; report: /,
  )

  const { external_id: id, external_key: key, name } = device(7)
  const asDevice = { authorization: `Thing ${key}` }
  const { json } = await expectStatus(call(platform.url, 'GET', `/things/bootstrap/${id}`, asDevice), 200)
  const { mainflux_id: thing, mainflux_key: thingKey, mainflux_channels: channels, content: text } = json as unknown as Fetched
  expect(channels.map(({ metadata }) => metadata['type'])).toEqual(['control', 'data', 'export'])
  expect(text).not.toContain('{{')
  const { agent, export: exported } = JSON.parse(text) as Content
  const [control, data, exporting] = channels.map(channel => channel.id)
  expect(agent).toMatchObject({ mqtt: { username: thing, password: thingKey }, channels: { control, data } })
  expect(exported.mqtt).toMatchObject({ username: thing, password: thingKey, channel: exporting })

  // It is connected, and the key is the thing's.
  const published = { authorization: `Thing ${thingKey}`, type: 'application/senml+json', body: [{ n: 'a', v: 1 }] }
  await expectStatus(call(platform.url, 'POST', `/channels/${data!}/messages`, published), 202)
  const { json: tokens } = await expectStatus(call(platform.url, 'POST', '/tokens', { body: user }), 201)
  const owner = { authorization: `Bearer ${String(tokens!['token'])}` }
  const { json: shown } = await expectStatus(call(platform.url, 'GET', `/things/${thing}`, owner), 200)
  expect(shown).toMatchObject({ name, metadata: { type: 'gateway', external_id: id, ctrl_channel_id: control, data_channel_id: data } })
  await expectStatus(call(platform.url, 'POST', `/things/bootstrap/${id}/ack`, asDevice), 204)
  expect(await platform.stop()).toBe(0)
  expect(platform.printed()).not.toContain('external key of')
})

interface Fetched {
  readonly mainflux_id: string
  readonly mainflux_key: string
  readonly mainflux_channels: readonly { readonly id: string; readonly metadata: Readonly<Record<string, unknown>> }[]
  readonly content: string
}

interface Content {
  readonly agent: { readonly mqtt: Readonly<Record<string, unknown>>; readonly channels: Readonly<Record<string, string>> }
  readonly export: { readonly mqtt: Readonly<Record<string, unknown>> }
}
