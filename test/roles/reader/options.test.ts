// The options of the role `reader`: invalid combinations of valid options, for each kind of store.

import { expect, test } from 'vitest'
import { loadReaderOptions } from '../../../roles/reader/options.ts'
import { storeOptions } from '../../../roles/stores/options.ts'
import { type StoreName, storeNameList } from '../../../roles/stores/store.ts'

const urls: Readonly<Record<StoreName, Record<string, string>>> = {
  relational: { SVC_RELATIONAL_URL: 'postgres://sluice:x7kq2m3p4d@db:5432/sluice' },
  widecolumn: { SVC_WIDECOLUMN_URL: 'cassandra://sluice:x7kq2m3p4d@node-1,node-2:9043/sluice?dc=datacenter1' },
  timeseries: { SVC_TIMESERIES_URL: 'http://influx:8086/?org=acme&bucket=sluice', SVC_TIMESERIES_TOKEN: 'x7kq2m3p4d' },
  document: { SVC_DOCUMENT_URL: 'mongodb://sluice:x7kq2m3p4d@mongo:27017/sluice' },
}

async function faultsOf(environment: Record<string, string>, store: StoreName = 'relational'): Promise<string[]> {
  const kind = await storeOptions(store)
  try {
    loadReaderOptions(kind, { environment: { ...urls[store], ...environment } })
  } catch (error) {
    return (error as Error).message.split('\n').slice(1)
  }
  return []
}

test.each(storeNameList)('a reader with a %s store requires only its address', async name => {
  const kind = await storeOptions(name)
  const options = loadReaderOptions(kind, { environment: urls[name] })
  expect(options).toMatchObject({ http: { port: 9084 }, internal: { listen: '127.0.0.1:9085' }, store: { queryTimeoutMs: 30_000 } })
  const variable = Object.keys(urls[name])[0]!
  expect(() => loadReaderOptions(kind, { environment: {} })).toThrow(new RegExp(`store\\.url: it is required: set ${variable}`))
})

test.each(storeNameList)('an invalid URL of a %s store is reported, without its text', async name => {
  const found = await faultsOf({ [Object.keys(urls[name])[0]!]: 'foo://x:hidden@[/z' }, name)
  expect(found.join()).toMatch(/store\.url/)
  expect(found.join()).not.toMatch(/hidden/)
})

test.each(storeNameList)('a publicly known secret is refused in production: %s', async name => {
  const known = Object.fromEntries(Object.entries(urls[name]).map(([key, value]) => [key, value.replace('x7kq2m3p4d', 'changeme')]))
  expect(await faultsOf(known, name)).toEqual([])
  expect(await faultsOf({ SVC_ENV: 'production', ...known }, name)).toEqual([
    expect.stringMatching(/store\.(url|token): with env = production/),
  ])
})

test.each(['document', 'widecolumn'] as const)('a user without password or the reverse is a fault: %s', async name => {
  const [[variable, url]] = Object.entries(urls[name]) as [[string, string]]
  const bare = { [variable]: url.replace('sluice:x7kq2m3p4d@', '') }
  expect(await faultsOf({ ...bare, SVC_STORE_USER: 'me' }, name)).toEqual([expect.stringMatching(/store\.user: its user has no password/)])
  expect(await faultsOf({ ...bare, SVC_STORE_USER: 'me', SVC_STORE_PASSWORD: 'x7kq2m3p4d' }, name)).toEqual([])
})

test.each([
  ['of an invalid internal port', { SVC_INTERNAL_LISTEN: '127.0.0.1:70000' }, /internal\.listen: .*give host:port/],
  ['of a control plane that is not a URL', { SVC_CONTROL_URL: 'api:9080' }, /control\.url: is not the address of an HTTP server/],
  ['of certificates without TLS', { SVC_CONTROL_URL: 'http://api', SVC_CONTROL_CA_FILE: 'ca.pem' }, /control\.url: does not use TLS/],
  [
    'of a short key of cursors',
    { SVC_READER_CURSOR_KEY: 'hidden' },
    /reader\.cursor_key is set \(value not shown\): give what `\.\/sluice secrets generate` prints \(32 random/,
  ],
  [
    'of a key of cursors with another letter',
    { SVC_READER_CURSOR_KEY: `hidden+${'x'.repeat(36)}` },
    /reader\.cursor_key is set \(value not shown\)/,
  ],
  ['of a store of another kind', { SVC_RELATIONAL_URL: 'mongodb://x:hidden@db/z' }, /store\.url is set \(value not shown\)/],
  ['of a password with a bare %', { SVC_RELATIONAL_URL: 'postgres://x:hidden%@db/z' }, /store\.url: its password contains a % that is not/],
  ['of an invalid time', { SVC_STORE_QUERY_TIMEOUT_MS: '0' }, /store\.query_timeout_ms is 0: give a whole number from 100/],
  [
    'of a known key of cursors in production',
    { SVC_ENV: 'production', SVC_READER_CURSOR_KEY: 'A'.repeat(43) },
    /reader\.cursor_key: with env = production/,
  ],
  ['of a known token in production', { SVC_ENV: 'production', SVC_CONTROL_TOKEN: 'changeme-changeme' }, /control\.token: with env/],
] as const)('a fault %s is reported with what to do', async (_name, environment, text) => {
  const found = await faultsOf(environment)
  expect(found).toEqual([expect.stringMatching(text)])
  expect(found.join()).not.toMatch(/hidden/)
})

test('all faults are reported together', async () => {
  const wrong = { SVC_CONTROL_URL: 'api:9080', SVC_INTERNAL_LISTEN: '127.0.0.1:70000', SVC_RELATIONAL_URL: 'postgres://x:y@[/z' }
  expect((await faultsOf(wrong)).map(fault => fault.trim().split(':')[0])).toEqual(['control.url', 'internal.listen', 'store.url'])
})
