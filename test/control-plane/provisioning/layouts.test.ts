// Mappings of other layouts: several things, certificates, content, no connections; and the user of a request without a token.
//
// Longer than most files: each layout is a case.

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { CertificatesOptions } from '../../../control-plane/certificates/options.ts'
import type { ChannelId } from '../../../control-plane/ids.ts'
import type { Layout } from '../../../control-plane/provisioning/layout.ts'
import type { ProvisionOptions } from '../../../control-plane/provisioning/options.ts'
import { type Answer, call } from '../../up/operator.ts'
import { startVaultStandIn } from '../certificates/authorities/vault-stand-in.ts'
import { ownCertificates } from '../certificates/certificates-options.ts'
import { readCrl } from '../certificates/openssl.ts'
import { describeOnDatabases, openPlatform, type Platform, type User } from '../platform.ts'
import { certificatesOf } from './vault.ts'

const layout: Layout = {
  things: [
    { name: 'pump', metadata: { kind: 'pump' }, isExternal: false },
    { name: 'gateway', metadata: { site: 'roof', type: 'box' }, isExternal: true },
  ],
  channels: [
    { name: 'out', metadata: { type: 'export' } },
    { name: 'data', metadata: { type: 'data' } },
    { name: 'control', metadata: { type: 'control' } },
  ],
  bootstrap: {
    isProvisioned: true,
    isWhitelisted: true,
    hasCertificates: true,
    content: { agent: { server: { port: '9999', nats_url: 'x' } } },
  },
  certificate: { ttlSeconds: 3600, keyType: 'ec', rsaBits: 2048 },
}
const without = (more: Partial<Layout['bootstrap']>): Layout => ({
  ...layout,
  bootstrap: { ...layout.bootstrap, hasCertificates: false, ...more },
})

interface Made {
  readonly things: { id: string; name: string; metadata: object }[]
  readonly channels: { id: string }[]
  readonly [field: string]: unknown
}

interface Certified extends Made {
  readonly certificates: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly client_cert: Readonly<Record<string, string>>
  readonly client_key: Readonly<Record<string, string>>
  readonly ca_cert: string
}

describeOnDatabases('layouts', database => {
  let user: User
  let first: Platform
  /** Closed with its test: all have one database, and one whose authority is gone would take the revocations of the others. */
  async function open(of: Layout, more: Partial<ProvisionOptions> = {}, certificates?: CertificatesOptions) {
    const platform = await opened(of, more, certificates)
    onTestFinished(() => platform.close())
    return platform
  }
  function opened(of: Layout, more: Partial<ProvisionOptions> = {}, certificates?: CertificatesOptions) {
    const settings = { layout: of, externalKeyBytesMin: 8, ...more }
    return openPlatform(database(), { provisioning: settings, ...(certificates && { certificates }) })
  }
  beforeAll(async () => {
    first = await opened(without({}))
    user = await first.user()
  })
  afterAll(() => first.close())
  let serial = 0
  const device = () => ({ external_id: `dev-${++serial}`, external_key: `external key ${serial}` })
  const map = ({ url }: Platform, body: object): Promise<Answer> => call(url, 'POST', '/mapping', { authorization: user.token, body })
  const fetch = ({ url }: Platform, { external_id: id, external_key: key }: ReturnType<typeof device>): Promise<Answer> =>
    call(url, 'GET', `/things/bootstrap/${id}`, { authorization: `Thing ${key}` })

  test('the name and the external id go to the one thing with external_id, and each thing is connected to each channel', async () => {
    const platform = await open(without({}))
    const body = device()
    const { things, channels, whitelisted } = (await map(platform, { ...body, name: 'named' })).json as unknown as Made
    const [pump, gateway] = things as [Made['things'][0], Made['things'][0]]
    const [out, data, control] = channels.map(({ id }) => id)
    expect([pump.name, pump.metadata, gateway.name]).toEqual(['pump', { kind: 'pump' }, 'named'])
    expect(gateway.metadata).toEqual({
      site: 'roof',
      type: 'gateway',
      external_id: body.external_id,
      cfg_id: gateway.id,
      ctrl_channel_id: control,
      data_channel_id: data,
      export_channel_id: out,
    })
    expect(whitelisted).toEqual({ [pump.id]: true, [gateway.id]: true })
    const connected = await database().query('SELECT FROM control_plane.connections WHERE thing = ANY($1::uuid[])', [
      things.map(({ id }) => id),
    ])
    expect(connected).toHaveLength(6)
    const { json } = await fetch(platform, body)
    expect(json).toMatchObject({ thing_id: gateway.id, channels: [out, data, control] })
    expect(JSON.parse(json!.content as string)).toEqual(layout.bootstrap.content)
    expect((await call(platform.url, 'GET', '/mapping', { authorization: user.token })).json).toEqual(layout.bootstrap.content)
  })

  test.each([
    ['a name', 'Roof 7', ['pump of Roof 7', 'Roof 7 (ID)'], ['Roof 7 data', 'ID-control', 'shared']],
    ['no name', undefined, ['pump of ID', 'ID (ID)'], ['ID data', 'ID-control', 'shared']],
  ])('names hold the external id and the name of the request: with %s', async (_name, name, things, channels) => {
    const named: Layout = {
      ...without({}),
      things: [
        { ...layout.things[0]!, name: 'pump of {{name}}' },
        { ...layout.things[1]!, name: '{{ name }} ({{external_id}})' },
      ],
      channels: ['{{name}} data', '{{external_id}}-control', 'shared'].map(of => ({ name: of, metadata: {} })),
    }
    const platform = await open(named)
    const body = { ...device(), name }
    const filled = (texts: readonly string[]): object[] => texts.map(text => ({ name: text.replaceAll('ID', body.external_id) }))
    const expected = { things: filled(things), channels: filled(channels) }
    const dryRun = await call(platform.url, 'POST', '/mapping?dry_run=true', { authorization: user.token, body })
    expect(dryRun.json).toMatchObject(expected)
    expect((await map(platform, body)).json).toMatchObject(expected)
    const long = await map(platform, { ...device(), name: 'n'.repeat(1_020) })
    expect([long.status, long.text]).toEqual([400, expect.stringContaining('would have more than 1024 bytes')])
  })

  test('things of many mappings share a channel that exists, which stays; one of others is refused as if it did not exist', async () => {
    const ask = (method: string, path: string, by = user, body?: object): Promise<Answer> =>
      call(first.url, method, path, { authorization: by.token, ...(body === undefined ? {} : { body }) })
    const shared = { name: 'Shared', metadata: { type: 'of the owner' } }
    const [channel] = (await ask('POST', '/channels/bulk', user, [shared])).json!['channels'] as [{ id: ChannelId }]
    const content = { app: { site: '{{channel.data.id}} {{channel.1.name}}', own: '{{channel.0.name}}' } }
    const own = { name: '{{external_id}}', metadata: { type: 'control' } }
    const channels = [own, { id: channel.id, name: '', metadata: { type: 'data' } }]
    const platform = await open({ ...without({ content }), channels })
    const [one, other] = [device(), device()]
    const dryRun = await call(platform.url, 'POST', '/mapping?dry_run=true', { authorization: user.token, body: one })
    expect(dryRun.json!['channels']).toEqual([
      { name: one.external_id, metadata: { type: 'control' } },
      { ...shared, id: channel.id },
    ])
    const made = (await map(platform, one)).json as unknown as Made
    expect(made.channels[1]).toEqual({ ...shared, id: channel.id })
    expect(made.things[1]!.metadata).toMatchObject({ ctrl_channel_id: made.channels[0]!.id, data_channel_id: channel.id })
    expect(((await map(platform, one)).json as unknown as Made).channels).toEqual(made.channels)
    const fetched = (await fetch(platform, one)).json!
    expect(JSON.parse(fetched['content'] as string)).toEqual({ app: { site: `${channel.id} Shared`, own: one.external_id } })
    await map(platform, other)
    const connected = async (): Promise<unknown> => (await ask('GET', `/channels/${channel.id}/things`)).json!['total']
    expect(await connected()).toBe(4)

    expect((await ask('DELETE', `/mapping/${one.external_id}`)).status).toBe(204)
    expect(await connected()).toBe(2)
    expect((await ask('GET', `/channels/${made.channels[0]!.id}`)).status).toBe(403)

    const stranger = await first.user()
    const refusals = async (by: User): Promise<unknown[]> =>
      Promise.all(
        ['/mapping', '/mapping?dry_run=true'].map(async path => {
          const { status, json } = await call(platform.url, 'POST', path, { authorization: by.token, body: device() })
          return [status, json!['code'], json!['detail']]
        }),
      )
    const others = await refusals(stranger)
    await ask('DELETE', `/channels/${channel.id}`)
    expect(others).toEqual(await refusals(user))
    expect(others).toEqual(Array.from({ length: 2 }, () => [403, 'forbidden', expect.stringContaining('the layout names a channel')]))
    expect((await ask('GET', '/things', stranger)).json).toMatchObject({ total: 0 })
    expect(((await map(platform, other)).json as unknown as Made).channels).toHaveLength(1)
  })

  test('a channel that a mapping created and another shares stays when the first is deleted', async () => {
    const [one, other] = [device(), device()]
    const made = (await map(await open(without({})), one)).json as unknown as Made
    const [shared, own] = made.channels.map(({ id }) => id) as [ChannelId, ChannelId]
    const sharing = await open({ ...without({}), channels: [{ id: shared, name: '', metadata: { type: 'control' } }] })
    await map(sharing, other)
    const ask = (method: string, path: string): Promise<Answer> => call(first.url, method, path, { authorization: user.token })
    expect((await ask('DELETE', `/mapping/${one.external_id}`)).status).toBe(204)
    expect([(await ask('GET', `/channels/${shared}`)).status, (await ask('GET', `/channels/${own}`)).status]).toEqual([200, 403])
    expect((await ask('DELETE', `/mapping/${other.external_id}`)).status).toBe(204)
    expect((await ask('GET', `/channels/${shared}`)).status).toBe(200)
  })

  test('without the whitelist nothing is connected, and the configuration is in state 0', async () => {
    const platform = await open(without({ isWhitelisted: false }))
    const body = device()
    const { things, whitelisted } = (await map(platform, body)).json as unknown as Made
    const ids = things.map(({ id }) => id)
    expect(whitelisted).toEqual({ [ids[0]!]: false, [ids[1]!]: false })
    expect(await database().query('SELECT FROM control_plane.connections WHERE thing = ANY($1::uuid[])', [ids])).toEqual([])
    expect((await fetch(platform, body)).status).toBe(200)
    const { json } = await call(platform.url, 'GET', `/things/configs/${ids[1]!}`, { authorization: user.token })
    expect(json).toMatchObject({ state: 0, enabled: true })
  })

  test('without a configuration the device fetches none, and the mapping still knows its key', async () => {
    const platform = await open(without({ isProvisioned: false }))
    const body = device()
    const { things } = (await map(platform, body)).json as unknown as Made
    expect(things[1]!.metadata).not.toHaveProperty('cfg_id')
    expect((await fetch(platform, body)).status).toBe(401)
    expect((await map(platform, body)).status).toBe(200)
    expect((await map(platform, { ...body, external_key: 'another external key' })).status).toBe(409)
  })

  test('each thing gets a certificate; only the first answer has the private keys, and the device fetches its own', async () => {
    const content = { agent: { mqtt: { client_key: '{{certificate.client_key}}', client_cert: '{{ certificate.client_cert }}' } } }
    const platform = await open({ ...layout, bootstrap: { ...layout.bootstrap, content } })
    const body = device()
    const answer = await map(platform, body)
    const { things, certificates, client_cert: certs, client_key: keys, ca_cert: authority } = answer.json as unknown as Certified
    const [pump, gateway] = things.map(({ id }) => id) as [string, string]
    for (const id of [pump, gateway]) {
      const certificate = new X509Certificate(certs[id]!)
      expect(certificate.subject).toBe(`CN=${id}`)
      expect(certificate.checkPrivateKey(createPrivateKey(keys[id]!))).toBe(true)
      expect(certificate.checkIssued(new X509Certificate(authority))).toBe(true)
      const ttlMs = Date.parse(certificate.validTo) - Date.now()
      expect(Math.abs(ttlMs - 3_600_000)).toBeLessThan(60_000)
      expect(certificates[id]).toMatchObject({ ThingID: id, ClientCert: certs[id], ClientKey: keys[id], PrivateKeyType: 'ec' })
      const { json } = await call(platform.url, 'GET', `/serials/${id}`, { authorization: user.token })
      expect(json).toMatchObject({ total: 1, certs: [{ cert_serial: certificates[id]!['Serial'] }] })
    }
    const again = await map(platform, body)
    expect([again.status, again.text.includes('PRIVATE KEY')]).toEqual([200, false])
    const { ClientKey: _, client_key: __, ...shown } = certificates[gateway]!
    expect(again.json).toMatchObject({ things, client_cert: certs, ca_cert: authority, certificates: { [gateway]: shown } })

    const fetched = (await fetch(platform, body)).json!
    expect(fetched).toMatchObject({ client_cert: certs[gateway], client_key: keys[gateway], ca_cert: authority })
    const filled = { client_key: keys[gateway], client_cert: certs[gateway] }
    expect(JSON.parse(fetched['content'] as string)).toMatchObject({ agent: { mqtt: filled } })
    for (const table of ['mappings', 'bootstrap_configs', 'certificates']) {
      const rows = await database().query<{ text: string }>(`SELECT t::text AS text FROM control_plane.${table} AS t`)
      expect(rows.map(({ text }) => text).join('\n')).not.toContain('PRIVATE KEY')
    }
    const ack = { authorization: `Thing ${body.external_key}` }
    expect((await call(platform.url, 'POST', `/things/bootstrap/${body.external_id}/ack`, ack)).status).toBe(204)
    const later = (await fetch(platform, body)).json!
    expect(later).not.toHaveProperty('client_key')
    expect(JSON.parse(later['content'] as string)).toMatchObject({ agent: { mqtt: { client_key: '', client_cert: certs[gateway] } } })

    expect((await call(platform.url, 'DELETE', `/things/${pump}`, { authorization: user.token })).status).toBe(204)
    const left = (await map(platform, body)).json as unknown as Certified
    expect([left.things.length, Object.keys(left.certificates), Object.keys(left.client_cert)]).toEqual([1, [gateway], [gateway]])

    expect((await call(platform.url, 'DELETE', `/mapping/${body.external_id}`, { authorization: user.token })).status).toBe(204)
    const sql = 'SELECT revoked_at IS NOT NULL AS revoked FROM control_plane.certificates WHERE thing = ANY($1::uuid[])'
    expect(await database().query(sql, [[pump, gateway]])).toEqual([{ revoked: true }, { revoked: true }])
  })

  test('a name and an external id that are placeholders stay as they are in the content, and no private key is filled into them', async () => {
    const content = { agent: { log: { level: '{{thing.name}} {{external_id}}' }, mqtt: { client_key: '{{certificate.client_key}}' } } }
    const platform = await open({ ...layout, bootstrap: { ...layout.bootstrap, content } })
    const body = { ...device(), external_id: '{{thing.key}}', name: '{{certificate.client_key}}' }
    await map(platform, body)
    const { json } = await fetch(platform, { ...body, external_id: encodeURIComponent(body.external_id) })
    expect(JSON.parse(json!['content'] as string)).toMatchObject({
      agent: { log: { level: '{{certificate.client_key}} {{thing.key}}' }, mqtt: { client_key: json!['client_key'] } },
    })
  })

  test.each<[string, Partial<Layout['bootstrap']>, string[]]>([
    ['except the thing that fetches its own', {}, ['pump']],
    ['without a configuration', { isProvisioned: false }, ['pump', 'named']],
  ])('a dry run names the things whose private keys are returned once: all %s', async (_name, more, names) => {
    const platform = await open(without({ hasCertificates: true, ...more }))
    const { json } = await call(platform.url, 'POST', '/mapping?dry_run=true', {
      authorization: user.token,
      body: { ...device(), name: 'named' },
    })
    expect(json).toMatchObject({ things: [{ name: 'pump' }, { name: 'named' }], keys_shown_once: names })
  })

  test('a repeated request returns the current certificates: a renewed one in place of the first, and no revoked one', async () => {
    const platform = await open(layout)
    const body = device()
    const first = (await map(platform, body)).json as unknown as Certified
    const [pump, gateway] = first.things.map(({ id }) => id) as [string, string]
    const ask = (method: string, path: string, json: object) => call(platform.url, method, path, { authorization: user.token, body: json })
    const renewed = await ask('POST', `/certs/${String(first.certificates[pump]!['Serial'])}/renew`, {})
    const { client_key: _, ClientKey: __, previous_serial: ___, previous_revoked: ____, ...record } = renewed.json!
    const again = (await map(platform, body)).json as unknown as Certified
    expect(again.certificates[pump]).toEqual(record)
    expect(again.client_cert).toEqual({ [pump]: record['ClientCert'], [gateway]: first.client_cert[gateway] })
    await ask('DELETE', '/certs/revoke', { thing_id: gateway })
    const left = (await map(platform, body)).json as unknown as Certified
    expect([Object.keys(left.certificates), Object.keys(left.client_cert)]).toEqual([[pump], [pump]])
    await ask('DELETE', '/certs/revoke', { thing_id: pump })
    expect((await map(platform, body)).json).not.toHaveProperty('certificates')
    const rows = await database().query<{ text: string }>('SELECT t::text AS text FROM control_plane.mappings AS t')
    expect(rows.map(({ text }) => text).join()).not.toContain(first.client_cert[gateway])
  })

  test('a certificate of an authority that was configured later is left out: its issuer is not stored with the mapping', async () => {
    const vault = await startVaultStandIn()
    onTestFinished(() => vault.stop())
    const body = device()
    const { things } = (await map(await open(layout), body)).json as unknown as Made
    const since = await open(layout, {}, certificatesOf(vault))
    const issue = { authorization: user.token, body: { thing_id: things[0]!.id, key_type: 'ec' } }
    expect((await call(since.url, 'POST', '/certs', issue)).status).toBe(201)
    expect((await map(since, body)).json).not.toHaveProperty('certificates')
  })

  test('a name that would be too long is refused before certificates are signed', async () => {
    const vault = await startVaultStandIn()
    onTestFinished(() => vault.stop())
    const platform = await open({ ...layout, channels: [{ name: '{{name}} data', metadata: {} }] }, {}, certificatesOf(vault))
    expect((await map(platform, { ...device(), name: 'n'.repeat(1_020) })).status).toBe(400)
    const crl = await globalThis.fetch(`${vault.url}/v1/${vault.mount}/crl`)
    expect([vault.valid(), (await readCrl(Buffer.from(await crl.arrayBuffer()))).serials]).toEqual([[], []])
  })

  test('of equal concurrent requests only one has certificates signed', async () => {
    const vault = await startVaultStandIn()
    onTestFinished(() => vault.stop())
    const platform = await open(layout, {}, certificatesOf(vault))
    const body = device()
    const answers = await Promise.all(Array.from({ length: 50 }, () => map(platform, body)))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    const idsOf = ({ json }: Answer): string => (json!['things'] as { id: string }[]).map(({ id }) => id).join()
    expect(new Set(answers.map(idsOf)).size).toBe(1)
    const crl = await globalThis.fetch(`${vault.url}/v1/${vault.mount}/crl`)
    expect([vault.valid().length, (await readCrl(Buffer.from(await crl.arrayBuffer()))).serials]).toEqual([2, []])
  })

  test('with sixty waiting for one external id of an owner a further request is a 429, and the others find the mapping', async () => {
    const vault = await startVaultStandIn()
    onTestFinished(() => vault.stop())
    const platform = await open(layout, {}, certificatesOf(vault))
    const [body, signing] = [device(), vault.hold()]
    const refused = Promise.withResolvers<Answer>()
    const asked = Array.from({ length: 61 }, async () => {
      const answer = await map(platform, body)
      if (answer.status === 429) refused.resolve(answer)
      return answer.status
    })
    expect((await refused.promise).json?.['detail']).toBe('too many mappings of this account are being created right now: retry')
    signing.release()
    const statuses = (await Promise.all(asked)).sort((one, other) => one - other)
    expect(statuses).toEqual([...Array.from({ length: 59 }, () => 200), 201, 429])
  })

  test('if two instances have certificates signed for one device, those of the second to commit are revoked', async () => {
    const vault = await startVaultStandIn()
    onTestFinished(() => vault.stop())
    const instances = [await open(layout, {}, certificatesOf(vault)), await open(layout, {}, certificatesOf(vault))]
    const [body, signing] = [device(), vault.hold(2)]
    const asked = instances.map(instance => map(instance, body))
    await signing.arrived
    signing.release()
    const [one, other] = await Promise.all(asked)
    expect(new Set([one!.status, other!.status])).toEqual(new Set([200, 201]))
    expect(one!.json!['things']).toEqual(other!.json!['things'])
    const kept = Object.values((one!.json as unknown as Certified).certificates).map(({ Serial }) => Serial)
    await expect.poll(() => vault.valid().toSorted()).toEqual(kept.map(String).toSorted())
    const crl = await globalThis.fetch(`${vault.url}/v1/${vault.mount}/crl`)
    expect((await readCrl(Buffer.from(await crl.arrayBuffer()))).serials).toHaveLength(2)
  })

  test('in mode development certificates are issued too', async () => {
    const platform = await open(layout, {}, { ...ownCertificates, mode: 'development' })
    expect((await map(platform, device())).json).toHaveProperty('client_cert')
  })

  test('if no thing has the external id there is no configuration, and the mapping is deleted with the first thing', async () => {
    const things = layout.things.map(thing => ({ ...thing, isExternal: false }))
    const platform = await open({ ...without({ isProvisioned: false }), things })
    const body = device()
    const made = (await map(platform, { ...body, name: 'not used' })).json as unknown as Made
    expect(made.things.map(({ name, metadata }) => ({ name, metadata }))).toEqual(
      layout.things.map(({ name, metadata }) => ({ name, metadata })),
    )
    expect((await map(platform, body)).status).toBe(200)
    expect((await call(platform.url, 'DELETE', `/mapping/${body.external_id}`, { authorization: user.token })).status).toBe(204)
  })

  test.each(['password', 'api-key'] as const)(
    'without a token a request acts for the user of the configured %s, and a token on it counts first',
    async kind => {
      const { json } = await call(first.url, 'POST', '/keys', { authorization: user.token, body: { name: 'provisioning' } })
      const byPassword = { kind: 'password', user: user.email, password: user.password } as const
      const platform = await open(without({}), {
        credentials: kind === 'password' ? byPassword : { kind, apiKey: json!['value'] as string },
      })
      const body = device()
      const anonymous = (method: string, path: string, more: object = {}) => call(platform.url, method, path, more)
      const answers = await Promise.all([1, 2, 3].map(() => anonymous('POST', '/mapping', { body })))
      expect(answers.map(({ status }) => status).sort((one, other) => one - other)).toEqual([200, 200, 201])
      expect((await map(platform, body)).status).toBe(200)
      expect((await anonymous('POST', '/mapping', { body, authorization: 'Bearer nonsense' })).status).toBe(401)
      expect((await anonymous('POST', '/mapping', { body, authorization: await platform.administrator() })).status).toBe(409)
      expect((await anonymous('GET', '/mapping')).status).toBe(401)
      expect((await anonymous('DELETE', `/mapping/${body.external_id}`)).status).toBe(401)
      expect((await anonymous('GET', '/things')).status).toBe(401)
    },
  )

  test('configured credentials that are invalid, or no longer valid, are a 401, and the log tells the operator', async () => {
    const changing = await first.user()
    const credentials = { kind: 'password', user: changing.email, password: changing.password } as const
    const platform = await open(without({}), { credentials })
    const anonymous = () => call(platform.url, 'POST', '/mapping', { body: device() })
    expect((await anonymous()).status).toBe(201)
    const body = { old_password: changing.password, password: 'another password of theirs' }
    expect((await call(platform.url, 'PATCH', '/password', { authorization: changing.token, body })).status).toBe(201)
    const { status, headers } = await anonymous()
    expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="sluice"'])
    expect(platform.logged()).toContain('invalid provision.user and provision.password')
    expect(platform.logged()).not.toContain(changing.password)
  })

  test('a configured API key with a scope is invalid', async () => {
    const { json } = await call(first.url, 'POST', '/keys', { authorization: user.token, body: { access: 'read' } })
    const platform = await open(without({}), { credentials: { kind: 'api-key', apiKey: json!['value'] as string } })
    expect((await call(platform.url, 'POST', '/mapping', { body: device() })).status).toBe(401)
    expect(platform.logged()).toContain('invalid provision.api_key')
  })

  test('a shorter minimum accepts shorter keys', async () => {
    const platform = await open(without({}), { externalKeyBytesMin: 4 })
    expect((await map(platform, { ...device(), external_key: '1234' })).status).toBe(201)
    expect((await map(platform, { ...device(), external_key: '123' })).status).toBe(400)
  })
})
