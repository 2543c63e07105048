// The section `provision`: the sources of its values, which take precedence, and what stops a start; with the names of release 0.13.

import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loadOptions } from '../../../config/options/options.ts'
import {
  loadProvisioning,
  type ProvisionOptions,
  type ProvisionSurroundings,
  provisionOptions,
} from '../../../control-plane/provisioning/options.ts'
import { faultsOf, layoutFile } from './layouts.ts'

const schema = Type.Object({ provision: provisionOptions })

type Surroundings = Partial<Omit<ProvisionSurroundings, 'environment'>>

function load(environment: Record<string, string>, file = '', surroundings: Surroundings = {}): ProvisionOptions {
  const all = file === '' ? environment : { SVC_PROVISION_CONFIG_PATH: layoutFile(file), ...environment }
  const { provision } = loadOptions(schema, { environment: all })
  return loadProvisioning(provision, {
    env: 'development',
    compatibility: 'none',
    ttlHoursMax: 8_760,
    http: { host: '127.0.0.1', trustedProxies: [] },
    environment: all,
    ...surroundings,
  })
}
const older: Surroundings = { compatibility: '0.13' }
const user = { SVC_PROVISION_USER: 'me@example.com', SVC_PROVISION_PASSWORD: 'x7kq2m3p' }
const asUser = { kind: 'password', user: 'me@example.com', password: 'x7kq2m3p' }

test('by default there are no credentials, external keys have at least 8 bytes, and there are no warnings', () => {
  expect(load({})).toMatchObject({ externalKeyBytesMin: 8, warnings: [] })
  expect(load({})).not.toHaveProperty('credentials')
  expect(load({ SVC_PROVISION_CONFIG_PATH: '' }).layout).toEqual(load({}).layout)
})

test('a layout with certificates that would be valid for longer than allowed stops the start', () => {
  const file = (has: boolean) => `[bootstrap]\nx509_provision = ${has}\n[cert]\nttl = "9000h"`
  expect(load({}, file(false)).layout.certificate.ttlSeconds).toBe(9_000 * 3_600)
  expect(() => load({}, file(true))).toThrow(/certificates.ttl_hours_max.*is 8760.*9000 hours/)
})

test.each([
  ['user and password of variables (SPEC §5)', user, '', asUser],
  ['the older name of the password', { SVC_PROVISION_USER: 'me@example.com', SVC_PROVISION_PASS: 'x7kq2m3p' }, '', asUser],
  ['an API key of a variable', { SVC_PROVISION_API_KEY: 'k1' }, '', { kind: 'api-key', apiKey: 'k1' }],
  ['user and password of the file', {}, 'svc_user = "me@example.com"\nsvc_pass = "x7kq2m3p"', asUser],
  ['those below [server]', {}, '[server]\nsvc_user = "me@example.com"\nsvc_pass = "x7kq2m3p"', asUser],
  ['an API key of the file', {}, '[server]\napi_key = "k1"', { kind: 'api-key', apiKey: 'k1' }],
  ['a variable before the file', { SVC_PROVISION_API_KEY: 'k2' }, 'api_key = "k1"', { kind: 'api-key', apiKey: 'k2' }],
  ['a user of the file with a password of a variable', { SVC_PROVISION_PASSWORD: 'x7kq2m3p' }, 'svc_user = "me@example.com"', asUser],
  ['empty ones of the file as none', {}, 'svc_user = ""\nsvc_pass = ""\n[server]\napi_key = ""', undefined],
])('%s are the credentials', (_name, environment, file, credentials) => {
  expect(load(environment as Record<string, string>, file).credentials).toEqual(credentials)
})

test('if an API key and a user with a password are given, the key is used, with a warning', () => {
  const { credentials, warnings } = load({ ...user, SVC_PROVISION_API_KEY: 'k1', SVC_PROVISION_EXTERNAL_KEY_BYTES_MIN: '16' })
  expect(credentials).toEqual({ kind: 'api-key', apiKey: 'k1' })
  expect(warnings).toEqual([expect.stringMatching(/the API key is used/)])
})

test('there is a warning about external keys below 16 bytes once provisioning is set up, and the file can set the minimum', () => {
  expect(load(user).warnings).toEqual([
    expect.stringMatching(/^external keys of 8 bytes are accepted: set SVC_PROVISION_EXTERNAL_KEY_BYTES_MIN/),
  ])
  expect(load({}, 'external_key_bytes_min = 16')).toMatchObject({ externalKeyBytesMin: 16, warnings: [] })
  expect(load({ SVC_PROVISION_EXTERNAL_KEY_BYTES_MIN: '32' }, '[server]\nexternal_key_bytes_min = 16').externalKeyBytesMin).toBe(32)
  expect(load({ SVC_PROVISION_EXTERNAL_KEY_BYTES_MIN: '4' }, '', older).externalKeyBytesMin).toBe(4)
})

const open = { ...user, SVC_PROVISION_OPEN: 'true' }
const toAll: Surroundings = { http: { host: '0.0.0.0', trustedProxies: [] } }
const proxied: Surroundings = { http: { host: '127.0.0.1', trustedProxies: ['127.0.0.1'] } }

test.each([
  [
    'a password without its user',
    { SVC_PROVISION_PASSWORD: 'hidden' },
    {},
    /^provision\.user: is missing beside provision\.password \(SVC_PROVISION_PASSWORD\)/,
  ],
  ['a user without its password', { SVC_PROVISION_USER: 'me' }, {}, /^provision\.password: is missing beside provision\.user/],
  ['two passwords', { ...user, SVC_PROVISION_PASS: 'hidden' }, {}, /^provision\.pass: differs from provision\.password/],
  [
    'credentials that other machines may use',
    user,
    toAll,
    /^provision\.open: other machines reach http\.host \(SVC_HTTP_HOST\) 0\.0\.0\.0, .*set SVC_PROVISION_OPEN=true/,
  ],
  ['an API key that they may use', { SVC_PROVISION_API_KEY: 'hidden' }, toAll, /^provision\.open: /],
  [
    'credentials behind a proxy',
    user,
    proxied,
    /^provision\.open: other machines reach http\.trusted_proxies .*set SVC_PROVISION_OPEN=true/,
  ],
  [
    'a short minimum of keys',
    { SVC_PROVISION_EXTERNAL_KEY_BYTES_MIN: '7' },
    {},
    /^provision\.external_key_bytes_min: is 7: give at least 8, or set SVC_COMPATIBILITY=0\.13/,
  ],
  [
    'a publicly known password, in production',
    { ...user, SVC_PROVISION_PASSWORD: 'changeme1' },
    { env: 'production' },
    /^provision\.password: with env = production/,
  ],
] as const)('%s stops the start', (_name, environment, surroundings, fault) => {
  const found = faultsOf(() => load(environment, '', surroundings))
  expect(found).toEqual([expect.stringMatching(fault)])
  expect(found.join()).not.toMatch(/hidden|changeme1/)
})

test('credentials are accepted with a loopback listener, or if the option says so', () => {
  for (const host of ['127.0.0.1', '::1', 'localhost'])
    expect(load(user, '', { http: { host, trustedProxies: [] } }).credentials).toEqual(asUser)
  expect(load({}, '', toAll)).not.toHaveProperty('credentials')
  expect(load(open, '', toAll).credentials).toEqual(asUser)
  expect(load(user, 'open = true', toAll).credentials).toEqual(asUser)
  expect(faultsOf(() => load({ ...user, SVC_PROVISION_OPEN: 'false' }, 'open = true', toAll))).toHaveLength(1)
})

/** As in the file and environment of that release. */
const olderFile = `
file = "config.toml"
[bootstrap]
autowhite_list = true
content = ""
provision = true
x509_provision = false
[server]
LogLevel = "info"
ca_certs = ""
http_port = "8190"
mf_api_key = ""
mf_bs_url = "http://localhost:8202"
mf_certs_url = "http://localhost:8204"
mf_pass = "x7kq2m3p"
mf_user = "me@example.com"
mf_white_list = "http://localhost:8202"
mqtt_url = ""
port = ""
server_cert = ""
server_key = ""
things_location = "http://localhost:8182"
things_url = ""
tls = true
users_location = ""
users_url = ""
log_level = "info"
[[things]]
name = "thing"
[things.metadata]
external_id = "xxxxxx"
`
const olderVariables = {
  MF_PROVISION_HTTP_PORT: '8190',
  MF_PROVISION_LOG_LEVEL: 'debug',
  MF_PROVISION_ENV_CLIENTS_TLS: 'false',
  MF_PROVISION_SERVER_CERT: '',
  MF_PROVISION_SERVER_KEY: '',
  MF_PROVISION_USERS_LOCATION: 'http://users:8180',
  MF_PROVISION_THINGS_LOCATION: 'http://things:8182',
  MF_PROVISION_USER: 'other@example.com',
  MF_PROVISION_PASS: 'x7kq2m3p',
  MF_PROVISION_API_KEY: '',
  MF_PROVISION_CERTS_SVC_URL: 'http://certs:8204',
  MF_PROVISION_X509_PROVISIONING: 'true',
  MF_PROVISION_BS_SVC_URL: 'http://bootstrap:8202/things',
  MF_PROVISION_BS_SVC_WHITELIST_URL: 'http://bootstrap:8202/things/state',
  MF_PROVISION_BS_CONFIG_PROVISIONING: 'true',
  MF_PROVISION_BS_AUTO_WHITELIST: 'false',
  MF_PROVISION_BS_CONTENT: '{"app":{"qos":1}}',
  MF_PROVISION_CERTS_RSA_BITS: '2048',
  MF_PROVISION_CERTS_HOURS_VALID: '24',
}

test('with compatibility the file of release 0.13 works, and each older key is one warning with its current name', () => {
  const { layout, credentials, warnings } = load({}, olderFile, older)
  expect(credentials).toEqual(asUser)
  expect(layout.things).toEqual([{ name: 'thing', metadata: { external_id: 'xxxxxx' }, isExternal: true }])
  const said = warnings.map(warning => warning.replace(/^.*config\.toml:\d+: /, ''))
  expect(said).toContain('server.mf_user is a name of release 0.13: write svc_user')
  expect(said).toContain('server.users_location is ignored: the services that it found there are one process now')
  // One more is about the length of external keys.
  expect(new Set(said).size).toBe(21)
})

test('with compatibility the variables of release 0.13 work below the file, each with one warning', () => {
  const { layout, credentials, warnings } = load(
    { MF_PROVISION_CONFIG_FILE: layoutFile('[bootstrap]\nx509_provision = false'), ...olderVariables },
    '',
    older,
  )
  expect(credentials).toEqual({ kind: 'password', user: 'other@example.com', password: 'x7kq2m3p' })
  expect(layout.bootstrap).toEqual({ isProvisioned: true, isWhitelisted: false, hasCertificates: false, content: { app: { qos: 1 } } })
  expect(layout.certificate).toEqual({ ttlSeconds: 86_400, keyType: 'rsa', rsaBits: 2048 })
  const variableWarnings = warnings.filter(warning => warning.startsWith('MF_'))
  // All except the three that are empty.
  expect(variableWarnings).toHaveLength(Object.keys(olderVariables).length + 1 - 3)
  expect(variableWarnings).toContain('MF_PROVISION_PASS: it is a name of release 0.13: write SVC_PROVISION_PASSWORD')
  expect(variableWarnings).toContain('MF_PROVISION_HTTP_PORT: it is ignored: set SVC_HTTP_PORT')
  expect(load({ ...user, ...olderVariables }, '', older).credentials).toEqual(asUser)
})

test('without compatibility every older name stops the start, and says what to write', () => {
  const fileFaults = faultsOf(() => load({}, olderFile))
  expect(fileFaults).toHaveLength(20)
  expect(fileFaults).toContain('config.toml:16: server.mf_user is a name of release 0.13: write svc_user, or set SVC_COMPATIBILITY=0.13')
  expect(fileFaults).toContain(
    'config.toml:11: server.http_port is a name of release 0.13: remove it (set SVC_HTTP_PORT), or set SVC_COMPATIBILITY=0.13',
  )
  expect(fileFaults.join()).not.toContain('x7kq2m3p')
  const variableFaults = faultsOf(() => load(olderVariables))
  expect(variableFaults).toHaveLength(Object.keys(olderVariables).length)
  expect(variableFaults).toContain(
    'MF_PROVISION_USER: it is a name of release 0.13: write SVC_PROVISION_USER, or set SVC_COMPATIBILITY=0.13',
  )
})

test.each([
  ['MF_PROVISION_USR', 'x', /^MF_PROVISION_USR: unknown variable: did you mean MF_PROVISION_USER\?$/],
  ['MF_PROVISION_CERTS_RSA_BITS', 'many', /^MF_PROVISION_CERTS_RSA_BITS: cert\.key_bits is "many": give a whole number/],
  ['MF_PROVISION_BS_CONTENT', '{hidden', /^MF_PROVISION_BS_CONTENT: is not JSON: give an object$/],
  ['MF_PROVISION_BS_CONTENT', '["hidden"]', /^MF_PROVISION_BS_CONTENT: bootstrap\.content is set \(value not shown\)/],
])('%s=%s is a fault also with compatibility', (name, value, fault) => {
  const found = faultsOf(() => load({ [name]: value }, '', older))
  expect(found).toEqual([expect.stringMatching(fault)])
  expect(found.join()).not.toContain('hidden')
})
