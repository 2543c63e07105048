// The options of the roles `api`, `ingest` and `bridge`: invalid combinations of valid options, and shared variables.

import { expect, test } from 'vitest'
import type { OptionSources } from '../../config/options/options.ts'
import { variablesOf } from '../../config/options/options.ts'
import { listOptions } from '../../config/options/schema.ts'
import { apiOptions, loadApiOptions } from '../../roles/api/options.ts'
import { loadBridgeOptions } from '../../roles/bridge/options.ts'
import { ingestRoleOptions, loadIngestOptions } from '../../roles/ingest/options.ts'
import { loadRoles } from '../tidy/write-readme.ts'

type Environment = Record<string, string>

function faultsOf(load: (sources: OptionSources) => unknown, environment: Environment): string[] {
  try {
    load({ environment })
  } catch (error) {
    return (error as Error).message.split('\n').slice(1)
  }
  return []
}

const right = {
  SVC_DATABASE_URL: 'postgres://sluice:x7kq2m3p4d@db:5432/sluice',
  SVC_MASTER_KEY: Buffer.alloc(32, 9).fill(3, 5).toString('base64url'),
}
const api = (environment: Environment) => faultsOf(loadApiOptions, { ...right, ...environment })
const ingest = (environment: Environment) => faultsOf(loadIngestOptions, environment)
const bridge = (environment: Environment) =>
  faultsOf(loadBridgeOptions, { SVC_BROKER_URL: 'mqtt://broker:1883', SVC_BROKER_TOPICS: 'plant/+/a,hall/#', ...environment })
const aToken = 'a-token-that-processes-share'

test('api requires its database and its key, a bridge its broker and topics, and ingest nothing', () => {
  expect(api({})).toEqual([])
  expect(ingest({})).toEqual([])
  expect(bridge({})).toEqual([])
  expect(faultsOf(loadBridgeOptions, {})).toEqual([
    expect.stringMatching(/broker\.url: it is required: set SVC_BROKER_URL/),
    expect.stringMatching(/broker\.topics: it is required: set SVC_BROKER_TOPICS/),
  ])
  expect(faultsOf(loadApiOptions, {})).toEqual([
    expect.stringMatching(/master_key: it is required: set SVC_MASTER_KEY/),
    expect.stringMatching(/database\.url: it is required: set SVC_DATABASE_URL/),
  ])
})

test('api serves all services, or those in the flag or variable', () => {
  const services = (environment: Environment, given?: string) =>
    loadApiOptions({ environment: { ...right, ...environment }, overrides: { services: given } }).services
  expect(services({})).toEqual(['core', 'provision', 'bootstrap', 'certs'])
  expect(services({ SVC_SERVICES: 'core' })).toEqual(['core'])
  expect(services({ SVC_SERVICES: 'core' }, 'provision,bootstrap')).toEqual(['provision', 'bootstrap'])
  expect(api({ SVC_SERVICES: 'provisioning' })).toEqual([
    expect.stringMatching(/services is .*provisioning.*one of core, provision, bootstrap/),
  ])
})

test('one variable gives both sides their token, and each side its internal address', () => {
  const shared = (schema: Parameters<typeof variablesOf>[0]): string[] =>
    variablesOf(schema).filter(name => /CONTROL_TOKEN$|INTERNAL_LISTEN|SVC_ENV/.test(name))
  expect(shared(apiOptions)).toEqual(['SVC_ENV', 'SVC_INTERNAL_LISTEN', 'SVC_CONTROL_TOKEN'])
  expect(shared(ingestRoleOptions)).toEqual(['SVC_ENV', 'SVC_INTERNAL_LISTEN', 'SVC_CONTROL_TOKEN'])
  expect(loadIngestOptions({ environment: { SVC_CONTROL_TOKEN: aToken } }).control.token).toBe(aToken)
  expect(loadApiOptions({ environment: { ...right, SVC_CONTROL_TOKEN: aToken } }).internal.token).toBe(aToken)
})

test('a listener that other machines can reach needs a token or mutual TLS', () => {
  const tls = { SVC_INTERNAL_CERT_FILE: 'c.pem', SVC_INTERNAL_KEY_FILE: 'k.pem' }
  for (const listen of ['0.0.0.0:9080', '[::]:9080', '10.0.0.1:9080', 'api:9080']) {
    const needs = [
      expect.stringMatching(
        /internal\.listen: .*reachable from other machines.*set SVC_CONTROL_TOKEN .*internal\.cert_file.*or listen on 127\.0\.0\.1/,
      ),
    ]
    expect(api({ SVC_INTERNAL_LISTEN: listen })).toEqual(needs)
    // The listener's certificate alone does not authenticate clients.
    expect(api({ SVC_INTERNAL_LISTEN: listen, ...tls })).toEqual(needs)
    expect(api({ SVC_INTERNAL_LISTEN: listen, ...tls, SVC_INTERNAL_CA_FILE: 'ca.pem' })).toEqual([])
    expect(api({ SVC_INTERNAL_LISTEN: listen, SVC_CONTROL_TOKEN: aToken })).toEqual([])
    // The internal listener of ingest serves only health and metrics.
    expect(ingest({ SVC_INTERNAL_LISTEN: listen })).toEqual([])
  }
  for (const listen of ['127.0.0.1:0', '[::1]:9080', 'localhost:9080']) expect(api({ SVC_INTERNAL_LISTEN: listen })).toEqual([])
})

test.each([
  ['of an invalid port', api, { SVC_INTERNAL_LISTEN: '127.0.0.1:70000' }, /internal\.listen: .*give host:port/],
  ['of a missing address', api, { SVC_INTERNAL_LISTEN: '9080' }, /internal\.listen is "9080": give host:port/],
  [
    'of a token that no header can contain',
    api,
    { SVC_CONTROL_TOKEN: 'a token with spaces' },
    /internal\.token is set \(value not shown\): give at least 16/,
  ],
  [
    'of a second token that is short',
    api,
    { SVC_CONTROL_TOKEN: `${aToken},short` },
    /internal\.token is set .* several separated by commas/,
  ],
  [
    'of a token that is missing',
    ingest,
    { SVC_CONTROL_TOKEN: `${aToken},` },
    /control\.token is set \(value not shown\): give at least 16/,
  ],
  ['of a short token', ingest, { SVC_CONTROL_TOKEN: 'short' }, /control\.token is set \(value not shown\): give at least 16/],
  [
    'of policies elsewhere with one connection',
    api,
    { SVC_POLICIES_STORE: 'openfga', SVC_DATABASE_CONNECTIONS_MAX: '1' },
    /database\.connections_max: with policies\.store = openfga at least 2/,
  ],
  [
    'of a certificate of the port without its key',
    ingest,
    { SVC_HTTP_CERT_FILE: 'c.pem' },
    /http\.cert_file: http\.cert_file and http\.key_file belong together/,
  ],
  [
    'of certificates of devices without TLS',
    ingest,
    { SVC_INGEST_CLIENT_CERTIFICATES: 'tls' },
    /ingest\.client_certificates: this needs TLS: also set http\.cert_file/,
  ],
  [
    'of certificates of devices without a proxy',
    ingest,
    { SVC_INGEST_CLIENT_CERTIFICATES: 'header' },
    /ingest\.client_certificates: .*list them in http\.trusted_proxies/,
  ],
  [
    'of certificates of devices over MQTT without TLS',
    ingest,
    { SVC_MQTT_CLIENT_CERTIFICATES: 'true' },
    /mqtt\.client_certificates: this needs TLS: also set mqtt\.cert_file/,
  ],
  ['of a certificate without its key', api, { SVC_INTERNAL_CERT_FILE: 'c.pem' }, /internal\.cert_file: .* belong together/],
  ['of an authority without a certificate', api, { SVC_INTERNAL_CA_FILE: 'c.pem' }, /internal\.ca_file: client certificates need TLS/],
  [
    'of another kind of database',
    api,
    { SVC_DATABASE_URL: 'mysql://x/y' },
    /database\.url is set \(value not shown\): give a URL such as postgres:/,
  ],
  ['of a database URL that cannot be read', api, { SVC_DATABASE_URL: 'postgres://x:y@[/z' }, /database\.url: cannot be read/],
  [
    'of a database password with a bare %',
    api,
    { SVC_DATABASE_URL: 'postgres://x:hidden%@db/z' },
    /database\.url: its password contains a % that is not an escape: write %25/,
  ],
  ['of an invalid master key', api, { SVC_MASTER_KEY: 'x'.repeat(42) }, /master_key: SVC_MASTER_KEY does not contain a master key/],
  [
    'of an invalid second master key',
    api,
    { SVC_MASTER_KEY: `${right.SVC_MASTER_KEY},${'x'.repeat(42)}` },
    /master_key: SVC_MASTER_KEY does not contain a master key/,
  ],
  [
    'of a master key that is given twice',
    api,
    { SVC_MASTER_KEY: `${right.SVC_MASTER_KEY}\n${right.SVC_MASTER_KEY}` },
    /master_key: SVC_MASTER_KEY contains a master key twice/,
  ],
  ["of an administrator's email", api, { SVC_ADMIN_EMAIL: 'nonsense' }, /admin\.email: is not an email/],
  ['of a control plane that is not a URL', ingest, { SVC_CONTROL_URL: 'api:9080' }, /control\.url: is not the address of an HTTP server/],
  ['of a control plane with a query', ingest, { SVC_CONTROL_URL: 'http://api/?x' }, /control\.url: is not the address of an HTTP server/],
  [
    'of a password in the URL',
    ingest,
    { SVC_CONTROL_URL: 'http://me:hidden@api' },
    /control\.url: contains a user or a password: set the token/,
  ],
  [
    'of certificates without TLS',
    ingest,
    { SVC_CONTROL_URL: 'http://api', SVC_CONTROL_CA_FILE: 'ca.pem' },
    /control\.url: does not use TLS/,
  ],
  [
    'of a key without its certificate',
    ingest,
    { SVC_CONTROL_URL: 'https://api', SVC_CONTROL_KEY_FILE: 'k' },
    /control\.cert_file: .* belong together/,
  ],
  [
    'of a trusted proxy that is not an address',
    api,
    { SVC_HTTP_TRUSTED_PROXIES: '10.0.0.0/8,proxy.example' },
    /http\.trusted_proxies: "proxy\.example" is neither an address nor a network/,
  ],
  ['of a trusted network', ingest, { SVC_HTTP_TRUSTED_PROXIES: '10.0.0.0/33' }, /http\.trusted_proxies: "10\.0\.0\.0\/33" is neither/],
  [
    'of a layout file',
    api,
    { SVC_PROVISION_CONFIG_PATH: '/nowhere/layout.toml' },
    /layout\.toml \(SVC_PROVISION_CONFIG_PATH\): file not found/,
  ],
  [
    'of credentials for mappings that other machines may use',
    api,
    { SVC_PROVISION_API_KEY: 'hidden', SVC_HTTP_HOST: '0.0.0.0' },
    /provision\.open: other machines reach http\.host/,
  ],
  ['of a broker that is no broker of MQTT', bridge, { SVC_BROKER_URL: 'http://broker' }, /broker\.url: it must begin with mqtt:\/\//],
  ['of a password in a URL', bridge, { SVC_BROKER_URL: 'mqtt://u:hidden@broker' }, /broker\.url: it contains a user or a password/],
  ['of a password without a user', bridge, { SVC_BROKER_PASSWORD: 'hidden' }, /broker\.username: a password needs a user/],
  ['of a certificate without TLS', bridge, { SVC_BROKER_CA_FILE: 'ca.pem' }, /broker\.url: certificates require TLS/],
  ['of half a client certificate', bridge, { SVC_BROKER_URL: 'mqtts://b', SVC_BROKER_CERT_FILE: 'c.pem' }, /broker\.cert_file: .*together/],
  ['of a filter with a share', bridge, { SVC_BROKER_TOPICS: '$share/x/plant' }, /topic filters of MQTT, without \$share/],
  ['of a filter with a wildcard in a level', bridge, { SVC_BROKER_TOPICS: 'plant/a#' }, /topic filters of MQTT/],
  ['of a key, which MQTT has not', bridge, { SVC_BROKER_ENVELOPE_CHANNEL: 'key' }, /topic, topic:<level>/],
  ['of a topic that Kafka refuses', ingest, { SVC_LOG_TOPIC: 'a topic' }, /log\.topic/],
] as const)('a fault %s is reported with what to do', (_name, faults, environment, text) => {
  const found = faults(environment)
  expect(found).toEqual([expect.stringMatching(text)])
  expect(found.join()).not.toMatch(/hidden|a token with|x{42}/)
})

test('a key alone is for TLS, too', () => {
  expect(ingest({ SVC_CONTROL_URL: 'http://api', SVC_CONTROL_KEY_FILE: 'k.pem' })).toEqual([
    expect.stringMatching(/control\.url: does not use TLS, .*unset control\.cert_file, control\.key_file and control\.ca_file/),
    expect.stringMatching(/control\.cert_file: .* belong together/),
  ])
})

test('known secrets are faults only in production', () => {
  const known = { SVC_CONTROL_TOKEN: 'changeme-changeme', SVC_ADMIN_PASSWORD: 'password1' }
  expect(api(known)).toEqual([])
  expect(api({ ...known, SVC_ENV: 'production' })).toHaveLength(2)
  expect(ingest({ SVC_CONTROL_TOKEN: 'changeme-changeme', SVC_ENV: 'production' })).toEqual([
    expect.stringMatching(/control\.token: with env = production/),
  ])
  expect(api({ SVC_ENV: 'production', SVC_CONTROL_TOKEN: aToken })).toEqual([])
  // Each one in a list is checked.
  const lists = { SVC_CONTROL_TOKEN: `${aToken},changeme-changeme`, SVC_MASTER_KEY: `${right.SVC_MASTER_KEY},${'A'.repeat(43)}` }
  expect([api(lists), api({ ...lists, SVC_ENV: 'production' }).length]).toEqual([[], 2])
  expect(ingest({ SVC_CONTROL_TOKEN: lists.SVC_CONTROL_TOKEN, SVC_ENV: 'production' })).toHaveLength(1)
  for (const url of ['postgres://sluice:postgres@db/z', 'postgres://sluice@db/z?password=postgres']) {
    expect(api({ SVC_ENV: 'production', SVC_DATABASE_URL: url })).toEqual([expect.stringMatching(/database\.url: with env = production/)])
  }
})

test('a variable shared by several roles accepts the same in each, so that one environment serves all processes', async () => {
  const found = new Map<string, Set<string>>()
  for (const schema of Object.values(await loadRoles())) {
    for (const { variable, kind, allowed } of listOptions(schema)) {
      if (variable !== undefined) found.set(variable, (found.get(variable) ?? new Set()).add(`${kind}: ${allowed}`))
    }
  }
  expect([...found].filter(([, meanings]) => meanings.size > 1)).toEqual([])
})
