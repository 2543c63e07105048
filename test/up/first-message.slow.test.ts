// The whole platform, from the first user to the first record read, and across a restart.

import { readdir, readFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import mqtt from 'mqtt'
import { expect, test } from 'vitest'
import { sluice } from '../bin/command.ts'
import { inDepth } from '../depth.ts'
import { type Answer, call, expectStatus, makeSite, publish, readUntil, type Site } from './operator.ts'
import { disposableFolder, spawnPlatform, startedFolder, startPlatform } from './platform.ts'

/** Of a user who registered themselves, as they see it. */
async function profileOf(url: string, { owner }: { readonly owner: string }): Promise<Answer['json']> {
  return (await expectStatus(call(url, 'GET', '/users/profile', { authorization: owner }), 200)).json
}

test('a record published over HTTP is returned by the reader, resolved', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  const accepted = await publish(
    platform.url,
    site,
    [
      { bn: 'room:', bt: 1_700_000_000, n: 'temperature', u: 'Cel', v: 21.5 },
      { n: 'open', vb: false },
    ],
    'house/attic',
  )
  expect(accepted.status).toBe(202)
  expect(accepted.json).toEqual({ id: '1-0-0' })
  expect(await profileOf(platform.url, site)).not.toHaveProperty('bounded')

  const envelope = { Channel: site.channel, Subtopic: 'house.attic', Publisher: site.thing, Protocol: 'http' }
  expect(await readUntil(platform.url, site, 2)).toEqual([
    { ...envelope, Name: 'room:open', Time: 1_700_000_000, BoolValue: false },
    { ...envelope, Name: 'room:temperature', Unit: 'Cel', Time: 1_700_000_000, Value: 21.5 },
  ])
  const own = await expectStatus(call(platform.url, 'GET', `/channels/${site.channel}/messages`, { authorization: site.device }), 200)
  expect(own.json).toMatchObject({ total: 2, offset: 0, limit: 10, format: 'messages' })

  const metrics = async (): Promise<string> => (await call(platform.url, 'GET', '/metrics')).text
  const writerLabels = 'component_id="relational",component_kind="source",topic="messages",partition="0"'
  await expect.poll(metrics).toMatch(new RegExp(`^consumer_lag_messages\\{${writerLabels}\\} 0$`, 'm'))
  const text = await metrics()
  expect(text).toMatch(new RegExp(`^consumer_lag_seconds\\{${writerLabels}\\} 0$`, 'm'))
  expect(text).toMatch(/^last_write_timestamp_seconds\{component_id="relational",component_kind="sink"\} \d+/m)
  for (const dependency of ['log', 'store', 'dead_letters'])
    expect(text).toMatch(new RegExp(`^dependency_outage\\{component_id="relational",dependency="${dependency}"\\} 0$`, 'm'))
  expect(await platform.stop()).toBe(0)
})

test.each([
  [4, 'TCP'],
  [5, 'WebSocket'],
] as const)(
  'a message acknowledged over MQTT, version %i over %s, is read over HTTP, and others over HTTP are heard',
  async (protocolVersion, transport) => {
    await using folder = await startedFolder()
    const platform = await startPlatform({ data: folder.path })
    const site = await makeSite(platform.url)
    const [, url] = /^mqtt on (mqtt:\S+)$/m.exec(platform.printed())!
    const options = { protocolVersion, username: site.thing, password: site.device.replace('Thing ', ''), reconnectPeriod: 0 }
    const client = await mqtt.connectAsync(transport === 'TCP' ? url! : `${platform.url.replace('http', 'ws')}/mqtt`, options)
    const heard: string[] = []
    const second = new Promise(resolve =>
      client.on('message', (topic, payload) => {
        if (heard.push(`${topic} ${payload.toString()}`) === 2) resolve(undefined)
      }),
    )
    await client.subscribeAsync(`channels/${site.channel}/messages/#`, { qos: 1 })
    const pack = '[{"n":"temperature","t":1700000000,"v":21.5}]'
    await client.publishAsync(`channels/${site.channel}/messages/house/attic`, pack, { qos: 1 })
    const json = { authorization: site.device, 'content-type': 'application/json' }
    const posted = await fetch(`${platform.url}/channels/${site.channel}/messages/state`, {
      method: 'POST',
      headers: json,
      body: '{"door":"open"}',
    })
    expect(posted.status).toBe(202)
    await second
    expect(heard).toEqual([
      `channels/${site.channel}/messages/house/attic ${pack}`,
      `channels/${site.channel}/messages/state {"door":"open"}`,
    ])
    await client.endAsync()
    const words = ['send', '--mqtt', url!, '--lines', '--channel', site.channel, '--subtopic', 'house/roof']
    const sent = await sluice(words, '[{"n":"wind","t":1700000001,"v":5}]\n', { SVC_THING_KEY: options.password })
    expect(sent).toMatchObject({ code: 0, errors: '' })
    expect(sent.output.toString()).toBe(`sent 1 messages to ${url}\n`)
    const [wind, ...others] = await readUntil(platform.url, site, 2)
    expect(wind).toMatchObject({ Name: 'wind', Subtopic: 'house.roof', Publisher: site.thing })
    expect(others).toEqual([
      {
        Channel: site.channel,
        Subtopic: 'house.attic',
        Publisher: site.thing,
        Protocol: 'mqtt',
        Name: 'temperature',
        Time: 1_700_000_000,
        Value: 21.5,
      },
    ])
    expect(await platform.stop()).toBe(0)
  },
)

test('deleting a thing, replacing its key, or disconnecting it from a channel it hears, ends its MQTT connection', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path })
  const [, url] = /^mqtt on (mqtt:\S+)$/m.exec(platform.printed())!
  for (const [method, pathOf] of [
    ['PATCH', ({ thing }) => `/things/${thing}/key`],
    ['DELETE', ({ thing }) => `/things/${thing}`],
    ['DELETE', ({ thing, channel }) => `/channels/${channel}/things/${thing}`],
    ['DELETE', ({ channel }) => `/channels/${channel}`],
  ] satisfies [string, (site: Site) => string][]) {
    const site = await makeSite(platform.url)
    const client = await mqtt.connectAsync(url!, {
      protocolVersion: 5,
      password: site.device.replace('Thing ', ''),
      username: site.thing,
      reconnectPeriod: 0,
    })
    const closed = new Promise(resolve => void client.once('close', () => resolve(undefined)))
    await client.subscribeAsync(`channels/${site.channel}/messages`)
    const { status } = await call(platform.url, method, pathOf(site), {
      authorization: site.owner,
      ...(method === 'DELETE' ? {} : { body: {} }),
    })
    expect(status).toBeLessThan(300)
    await closed
    await client.endAsync()
  }
  expect(await platform.stop()).toBe(0)
})

test('an MQTT session goes on after a restart, and after the process was killed', async () => {
  await using folder = await startedFolder()
  let platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  const heard: string[] = []
  async function listen(until: number): Promise<mqtt.MqttClient> {
    const [, url] = /^mqtt on (mqtt:\S+)$/m.exec(platform.printed())!
    const client = mqtt.connect(url!, {
      username: site.thing,
      password: site.device.replace('Thing ', ''),
      clientId: 'stays',
      clean: false,
      reconnectPeriod: 0,
    })
    const enough = new Promise(resolve =>
      client.on('message', (_topic, payload, { dup }) => {
        if (!dup) heard.push((JSON.parse(payload.toString()) as { n: string }[])[0]!.n)
        if (heard.length >= until) resolve(undefined)
      }),
    )
    await new Promise(resolve => client.once('connect', resolve))
    if (until === 1) await client.subscribeAsync(`channels/${site.channel}/messages`, { qos: 1 })
    if (until === 1) await expectStatus(publish(platform.url, site, [{ n: 'first', v: 1 }]), 202)
    await enough
    return client
  }
  await (await listen(1)).endAsync()
  await expectStatus(publish(platform.url, site, [{ n: 'between', v: 2 }]), 202)
  expect(await platform.stop()).toBe(0)
  platform = await startPlatform({ data: folder.path })
  await (await listen(2)).endAsync()
  await expectStatus(publish(platform.url, site, [{ n: 'killed', v: 3 }]), 202)
  await platform.stop('SIGKILL')
  platform = await startPlatform({ data: folder.path })
  await (await listen(3)).endAsync()
  expect(heard).toEqual(['first', 'between', 'killed'])
  expect(await platform.stop()).toBe(0)
})

test('users, things, connections and messages survive a restart, and the same tokens and keys work', async () => {
  await using folder = await startedFolder()
  let platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  await expectStatus(publish(platform.url, site, [{ n: 'before', v: 1 }]), 202)
  expect(await platform.stop('SIGINT')).toBe(0)

  platform = await startPlatform({ data: folder.path })
  await expectStatus(publish(platform.url, site, [{ n: 'after', v: 2 }]), 202)
  const names = (await readUntil(platform.url, site, 2)).map(record => record.Name)
  expect(new Set(names)).toEqual(new Set(['after', 'before']))
  expect(names).toHaveLength(2)
  expect(await platform.stop()).toBe(0)
})

test('the first start creates an administrator whose password is in no output, and no other user reads a file', async () => {
  await using folder = await disposableFolder()
  // A name that resolves to this machine alone.
  const byName = ['--host', '127.1']
  const platform = await startPlatform({ data: folder.path, arguments: byName, environment: { SVC_ADMIN_EMAIL: 'chief@sluice.example' } })
  const file = join(folder.path, 'admin-password')
  const password = (await readFile(file, 'utf8')).trim()
  const files = (await readdir(folder.path, { recursive: true, withFileTypes: true })).filter(entry => entry.isFile())
  const open = await Promise.all(files.map(async entry => ((await stat(join(entry.parentPath, entry.name))).mode & 0o077) !== 0))
  expect(files.filter((_, at) => open[at])).toEqual([])
  expect(platform.printed()).toContain(file)
  expect(platform.printed()).not.toContain(password)
  expect(platform.printed()).not.toContain('/#/sign-in')
  expect(platform.printed()).not.toContain('other machines')
  expect(platform.printed()).toContain(`npm run demo -- --url ${platform.url}`)
  expect(platform.printed()).toContain(`${platform.url}/docs`)
  await expectStatus(call(platform.url, 'POST', '/tokens', { body: { email: 'chief@sluice.example', password } }), 201)
  expect(await profileOf(platform.url, await makeSite(platform.url))).not.toHaveProperty('bounded')
  expect(await platform.stop()).toBe(0)
})

test.each([
  ['on an address that other machines reach', '0.0.0.0', '', 'other machines reach'],
  ['behind a trusted proxy', '127.0.0.1', '127.0.0.1', 'a proxy (http.trusted_proxies) may forward others to'],
])('%s, a start says in one line what is open, and users who register themselves have bounds', async (_, host, proxies, whoReaches) => {
  await using folder = await startedFolder()
  const environment = proxies === '' ? {} : { SVC_HTTP_TRUSTED_PROXIES: proxies }
  const platform = await startPlatform({ data: folder.path, arguments: ['--host', host], environment })
  const sentence = platform
    .printed()
    .split('\n')
    .find(line => line.startsWith(`${whoReaches} this address: `))
  expect(sentence).toMatch(/, and register as users \(SVC_USERS_ALLOW_SELF_REGISTER=false closes that\)$/)
  expect(await profileOf(platform.url, await makeSite(platform.url))).toMatchObject({ bounded: true })
  expect(await platform.stop()).toBe(0)
})

inDepth(() => {
  test('an administrator in the environment gets no password file', async () => {
    await using folder = await disposableFolder()
    const environment = { SVC_ADMIN_EMAIL: 'chief@sluice.example', SVC_ADMIN_PASSWORD: 'given by the operator' }
    const platform = await startPlatform({ data: folder.path, environment })
    await expectStatus(
      call(platform.url, 'POST', '/tokens', { body: { email: environment.SVC_ADMIN_EMAIL, password: environment.SVC_ADMIN_PASSWORD } }),
      201,
    )
    await expect(stat(join(folder.path, 'admin-password'))).rejects.toMatchObject({ code: 'ENOENT' })
    expect(platform.printed()).not.toContain(environment.SVC_ADMIN_PASSWORD)
    expect(await platform.stop()).toBe(0)
  })
})

test('a second process on the same folder stops immediately with an error, and the first continues', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path })
  const { child, printed } = spawnPlatform({ data: folder.path })
  const code = await new Promise(resolve => child.once('close', resolve))
  expect(code).toBe(1)
  expect(printed()).toContain(`process ${platform.process.pid}`)
  expect(printed().trim().split('\n')).toHaveLength(1)
  expect((await call(platform.url, 'GET', '/health')).status).toBe(200)
  expect(await platform.stop()).toBe(0)
})

inDepth(() => {
  test('a port in use stops the start with an error and leaves the folder free', async () => {
    await using folder = await startedFolder()
    await using other = await disposableFolder()
    const platform = await startPlatform({ data: folder.path })
    const port = new URL(platform.url).port
    const { child, printed } = spawnPlatform({ data: other.path, arguments: ['--port', port] })
    expect(await new Promise(resolve => child.once('close', resolve))).toBe(1)
    expect(printed()).toMatch(new RegExp(`port ${port} .*--port`))
    expect(await platform.stop()).toBe(0)
    const again = await startPlatform({ data: other.path })
    // The failed start has not used up the message of the first start.
    expect(again.printed()).toContain(join(other.path, 'admin-password'))
    expect(await again.stop()).toBe(0)
  })
})

inDepth(() => {
  test('a recreated log stops the start until it is accepted, and then both can be read', async () => {
    await using folder = await startedFolder()
    let platform = await startPlatform({ data: folder.path })
    const site = await makeSite(platform.url)
    await expectStatus(publish(platform.url, site, [{ n: 'old', v: 1 }]), 202)
    await readUntil(platform.url, site, 1)
    expect(await platform.stop()).toBe(0)
    await rename(join(folder.path, 'log'), join(folder.path, 'log.before'))

    async function refused(...options: string[]): Promise<string> {
      const { child, printed } = spawnPlatform({ data: folder.path, arguments: options })
      expect(await new Promise(resolve => child.once('close', resolve))).toBe(1)
      return /start once with --accept-new-log ([\w-]+)/.exec(printed())![1]!
    }
    const id = await refused()
    expect(await refused('--accept-new-log', 'of-another-log')).toBe(id)
    platform = await startPlatform({ data: folder.path, arguments: ['--accept-new-log', id] })
    const accepted = await expectStatus(publish(platform.url, site, [{ n: 'new', v: 2 }]), 202)
    // The store numbers logs; the earlier one is 1.
    expect(accepted.json).toEqual({ id: '2-0-0' })
    expect(new Set((await readUntil(platform.url, site, 2)).map(record => record.Name))).toEqual(new Set(['old', 'new']))
    expect(await platform.stop()).toBe(0)
  })
})

test('a missing master key stops the start with an error, and no new one is created in its place', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path })
  expect(await platform.stop()).toBe(0)
  const key = join(folder.path, 'master-key')
  await rename(key, `${key}.moved`)
  const { child, printed } = spawnPlatform({ data: folder.path })
  expect(await new Promise(resolve => child.once('close', resolve))).toBe(1)
  expect(printed().trim()).toMatch(/^\S+master-key is missing.*restore it/)
  await expect(stat(key)).rejects.toMatchObject({ code: 'ENOENT' })
})
