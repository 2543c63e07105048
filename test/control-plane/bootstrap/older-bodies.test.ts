// Bodies that SDK, command line and agents of release 0.13 send, and what they decode from the answers: they reject an answer with a field of another type.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readLayout } from '../../../control-plane/provisioning/layout-file.ts'
import { type Answer, call } from '../../up/operator.ts'
import { describeOnDatabases, openPlatform, type Platform, type User } from '../platform.ts'

const fixtures = join(import.meta.dirname, '../fixtures/0.13')
/** A layout file of that release. */
const configToml = join(fixtures, 'config.toml')
/** Each by its request, sent unchanged. */
const bodies = JSON.parse(readFileSync(join(fixtures, 'bodies.json'), 'utf8')) as Record<string, Readonly<Record<string, unknown>>>
const unsent = new Set(Object.keys(bodies))

/** Decodes like Go: names are case-insensitive, unknown ones are ignored, another type is an error. */
type Kind = 'text' | 'integer' | 'boolean' | readonly [Kind] | { readonly [name: string]: Kind } | 'object'

function decode(value: unknown, kind: Kind, where = 'body'): unknown {
  const refuse = (): never => {
    throw new Error(`${where} is ${JSON.stringify(value)}, and no ${JSON.stringify(kind)}`)
  }
  if (value === undefined || value === null) return undefined
  if (kind === 'text') return typeof value === 'string' ? value : refuse()
  if (kind === 'integer') return Number.isInteger(value) ? value : refuse()
  if (kind === 'boolean') return typeof value === 'boolean' ? value : refuse()
  if (typeof value !== 'object') return refuse()
  if (kind === 'object') return Array.isArray(value) ? refuse() : value
  if (Array.isArray(kind)) return Array.isArray(value) ? value.map((one, at) => decode(one, kind[0] as Kind, `${where}.${at}`)) : refuse()
  const given = new Map(Object.entries(value).map(([name, inner]) => [name.toLowerCase(), inner as unknown]))
  const fields = Object.entries(kind as Readonly<Record<string, Kind>>).map(([name, of]) => [
    name,
    decode(given.get(name), of, `${where}.${name}`),
  ])
  return Object.fromEntries(fields.filter(([, inner]) => inner !== undefined))
}

const channel = { id: 'text', name: 'text', metadata: 'object' } as const
/** What the SDK decodes from a configuration, and from a fetch. */
const sdkConfig = {
  thing_id: 'text',
  channels: ['text'],
  external_id: 'text',
  mainflux_id: 'text',
  mainflux_key: 'text',
  mainflux_channels: [channel],
  name: 'text',
  content: 'text',
  client_cert: 'text',
  client_key: 'text',
  ca_cert: 'text',
  state: 'integer',
} as const
const agentConfig = {
  mainflux_id: 'text',
  mainflux_key: 'text',
  mainflux_channels: [channel],
  content: 'text',
  client_cert: 'text',
  client_key: 'text',
  ca_cert: 'text',
} as const
const agentContent = {
  agent: {
    edgex: { url: 'text' },
    log: { level: 'text' },
    mqtt: { url: 'text', username: 'text', password: 'text', mtls: 'boolean', skip_tls_ver: 'boolean', retain: 'boolean', qos: 'integer' },
    server: { port: 'text', nats_url: 'text' },
    heartbeat: { interval: 'text' },
    terminal: { session_timeout: 'text' },
  },
} as const
const sdkMapping = {
  things: [{ id: 'text', name: 'text', key: 'text', metadata: 'object' }],
  channels: [channel],
  whitelisted: 'object',
  client_cert: 'object',
  client_key: 'object',
  ca_cert: 'text',
  error: 'text',
} as const

describeOnDatabases('bodies of release 0.13', database => {
  let platform: Platform
  let user: User
  beforeAll(async () => {
    const { layout } = readLayout(configToml, { compatibility: '0.13', environment: {} })
    platform = await openPlatform(database(), { compatibility: '0.13', provisioning: { layout, externalKeyBytesMin: 8 } })
    user = await platform.user()
  })
  afterAll(() => platform?.close())
  /** With the content type that the SDK sends on every request. */
  const ask = (method: string, path: string, body?: object, authorization = user.token): Promise<Answer> =>
    call(platform.url, method, path, { authorization, headers: { 'content-type': 'application/json' }, ...(body && { body }) })
  /** Sends a body of the fixtures to its route, with the id in place of `<thing>`. */
  function send(request: string, thing = ''): Promise<Answer> {
    unsent.delete(request)
    const [route = ''] = request.split(',')
    const [method = '', path = ''] = route.replace('<thing>', thing).split(' ')
    return ask(method, path, bodies[request])
  }
  const decoded = ({ json }: Answer, kind: Kind): unknown => decode(json, kind)
  type Config = Readonly<Record<string, unknown>> & {
    readonly mainflux_id: string
    readonly mainflux_key: string
    readonly channels: string[]
  }

  test('of a configuration: created, listed, viewed, changed, whitelisted, fetched and removed', async () => {
    const whole = bodies['PUT /things/configs/<thing>']!
    const thing = whole['mainflux_id'] as string
    const [one, two] = whole['mainflux_channels'] as [{ id: string }, { id: string }]
    expect((await ask('POST', '/channels/bulk', [one, two])).status).toBe(201)
    expect((await ask('POST', '/things', { id: thing, key: whole['mainflux_key'] })).status).toBe(201)
    const created = await send('POST /things/configs')
    expect([created.status, created.headers.get('location')]).toEqual([201, `/things/configs/${thing}`])
    const viewed = decoded(await ask('GET', `/things/configs/${thing}`), sdkConfig) as Config
    expect(viewed).toMatchObject({ mainflux_id: thing, channels: [one.id, two.id], name: 'gateway', state: 0 })
    expect(viewed['mainflux_channels']).toEqual([
      { id: one.id, name: 'one', metadata: { type: 'control' } },
      { id: two.id, name: 'two' },
    ])
    const list = await ask('GET', `/things/configs?offset=0&limit=100&state=0&external_id=&mainflux_id=&mainflux_key=&name=GATE`)
    const page = decoded(list, { total: 'integer', offset: 'integer', limit: 'integer', configs: [sdkConfig] }) as object
    expect(page).toMatchObject({ total: 1, offset: 0, limit: 100, configs: [viewed] })

    // The SDK sends its whole structure.
    expect((await send('PUT /things/configs/<thing>', thing)).status).toBe(200)
    const certificates = bodies['PATCH /things/configs/certs/<thing>']
    expect((await send('PATCH /things/configs/certs/<thing>', thing)).status).toBe(200)
    expect((await send('PUT /things/configs/connections/<thing>', thing)).status).toBe(200)
    expect((await send('PUT /things/state/<thing>', thing)).status).toBe(200)
    const connected = async () => (await ask('GET', `/things/${thing}/channels`)).json!['channels']
    expect(await connected()).toMatchObject([{ id: two.id }])
    expect((await send('PUT /things/state/<thing>, by the SDK for state 0', thing)).status).toBe(200)
    expect(await connected()).toEqual([])

    for (const credential of ['Thing 12345678', 'Bearer 12345678', '12345678']) {
      const fetched = await ask('GET', '/things/bootstrap/02:42:ac:11:00:02', undefined, credential)
      expect(fetched.status).toBe(200)
      const config = { mainflux_id: thing, mainflux_channels: [{ id: two.id, name: 'two' }], content: '{"agent":{}}', ...certificates }
      expect(decoded(fetched, agentConfig)).toMatchObject(config)
      expect(decoded(fetched, sdkConfig)).toMatchObject({ channels: [two.id] })
    }
    expect((await ask('DELETE', `/things/configs/${thing}`)).status).toBe(204)
  })

  test('of a mapping, with a layout file of that release: its agent finds what it needs, and the same at every start', async () => {
    const made = await send('POST /mapping')
    expect(made.status).toBe(201)
    const { things, channels, error, ...rest } = decoded(made, sdkMapping) as Mapping
    const [thing] = things
    expect(error).toBeUndefined()
    const metadata = { type: 'gateway', external_id: '34:e1:2d:e6:cf:03', cfg_id: thing!.id }
    const references = { ctrl_channel_id: channels[0]!.id, data_channel_id: channels[1]!.id }
    expect(thing).toMatchObject({ name: 'gw', metadata: { ...metadata, ...references } })
    expect(thing!.metadata).not.toHaveProperty('external_key')
    const pem = { [thing!.id]: expect.stringContaining('-----BEGIN') as unknown }
    expect(rest).toMatchObject({ whitelisted: { [thing!.id]: true }, client_cert: pem, client_key: pem })
    expect((await ask('GET', '/mapping')).json).toMatchObject({ agent: { server: { port: '9000' } } })

    const start = async () =>
      decoded(await ask('GET', '/things/bootstrap/34:e1:2d:e6:cf:03', undefined, 'Thing 123456789'), agentConfig) as Config & {
        content: string
      }
    const first = await start()
    expect(first).toMatchObject({ mainflux_id: thing!.id, mainflux_key: thing!.key, mainflux_channels: channels })
    expect(first['client_key']).toContain('PRIVATE KEY')
    const { agent } = decode(JSON.parse(first.content), agentContent) as { agent: Record<string, object> }
    expect(agent).toMatchObject({
      edgex: { url: 'http://localhost:48090/api/v1/' },
      mqtt: { url: 'localhost:1883', username: thing!.id, password: thing!.key, qos: 0, mtls: false, skip_tls_ver: true },
      server: { port: '9000', nats_url: 'localhost:4222' },
      heartbeat: { interval: '30s' },
    })
    // It never acknowledges, and overwrites its key with what it gets.
    await database().query(`UPDATE control_plane.bootstrap_configs SET client_key_fetched_at = now() - interval '30 days'`)
    expect(await start()).toEqual(first)
  })

  test('with only the required fields a configuration creates its thing, and a mapping uses the name of the layout', async () => {
    const created = await send('POST /things/configs, required fields alone')
    expect([created.status, created.headers.get('location')]).toEqual([201, expect.stringMatching(/^\/things\/configs\/[\da-f-]{36}$/)])
    const made = await send('POST /mapping, required fields alone')
    expect([made.status, made.json?.['things']]).toMatchObject([201, [{ name: 'thing' }]])
  })

  test('each body of the fixtures was sent', () => expect([...unsent]).toEqual([]))
})

interface Mapping {
  readonly things: readonly { readonly id: string; readonly key: string; readonly metadata: object }[]
  readonly channels: readonly { readonly id: string }[]
  readonly error?: string
}
