// The URL of the store, and what can be known to be wrong with it.

import { expect, test } from 'vitest'
import { addressOf, secretsOf, urlFaults } from '../../../sinks/influxdb/options.ts'
import { defaults } from './store.ts'

test('the URL names the server, the organisation and the bucket', () => {
  expect(addressOf('https://host:8086/influx/?org=my%20plant&bucket=messages')).toEqual({
    origin: 'https://host:8086',
    path: '/influx',
    org: 'my plant',
    bucket: 'messages',
  })
  expect(urlFaults('http://127.0.0.1:8086?org=a&bucket=b')).toEqual([])
  expect(urlFaults('http://127.0.0.1:8086?org=a_sluice&bucket=b_sluices')).toEqual([])
})

test.each([
  ['http//x', /not a URL/],
  ['ftp://x/?org=a&bucket=b', /neither http/],
  ['http://x/?bucket=b', /no org/],
  ['http://x/?org=a', /no bucket/],
  ['http://x/?org=a&bucket=b&bucket=c', /more than one bucket/],
  ['http://x/?org=a&bucket=b&precision=s', /other than org and bucket/],
  ['http://x/?org=a&bucket=_monitoring', /begins with _/],
  ['http://x/?org=a&bucket=b_sluice', /ends in _sluice, like the registries of stores/],
  ['http://x/?org=a&bucket=b#c', /after #/],
  ['http://me:geheim@x/?org=a&bucket=b', /user or a password/],
  ['http://x/?org=a&bucket=b&token=geheim', /contains a token/],
])('%s', (url, problem) => {
  const faults = urlFaults(url)
  expect(faults.map(fault => fault.problem)).toEqual([expect.stringMatching(problem)])
  expect(JSON.stringify(faults)).not.toContain('geheim')
})

test('the token is a secret', () => {
  expect(secretsOf({ ...defaults, token: 'x' })).toEqual({ 'store.token': 'x' })
})
