// What is read of a cluster's URL, and what is said of one that is wrong, without its secrets.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { readServerUrl, secretsOf, urlFaults } from '../../../sinks/cassandra/options.ts'
import { optionsFor } from './store.ts'

const nobody = { user: undefined, password: undefined }

test.each([
  ['cassandra://db/sluice', { contactPoints: ['db:9042'], port: 9042, keyspace: 'sluice', dataCenter: 'datacenter1', ...nobody }],
  [
    'cassandra://a.example:9043,b.example,10.0.0.7:9044/Iot_1?dc=eu-west',
    {
      contactPoints: ['a.example:9043', 'b.example:9042', '10.0.0.7:9044'],
      port: 9043,
      keyspace: 'Iot_1',
      dataCenter: 'eu-west',
      ...nobody,
    },
  ],
  [
    'cassandra://[::1],[2001:db8::7]:9100/k',
    { contactPoints: ['[::1]:9042', '[2001:db8::7]:9100'], port: 9042, keyspace: 'k', dataCenter: 'datacenter1', ...nobody },
  ],
  [
    'cassandra://role:p%40ss%2F%3Aword@db/k?dc=my%20center',
    { contactPoints: ['db:9042'], port: 9042, keyspace: 'k', dataCenter: 'my center', user: 'role', password: 'p@ss/:word' },
  ],
  [
    'cassandra://role:a@b:c@db/k',
    { contactPoints: ['db:9042'], port: 9042, keyspace: 'k', dataCenter: 'datacenter1', user: 'role', password: 'a@b:c' },
  ],
  [
    'cassandra://role@db/k',
    { contactPoints: ['db:9042'], port: 9042, keyspace: 'k', dataCenter: 'datacenter1', user: 'role', password: undefined },
  ],
])('%s', (url, server) => expect(readServerUrl(url)).toEqual(server))

test.each([
  ['postgres://db/k', /does not begin with cassandra/],
  ['cassandra://db', /has no keyspace/],
  ['cassandra://db/', /has no keyspace/],
  ['cassandra:///k', /host 1 is invalid/],
  ['cassandra://a,,b/k', /host 2 is invalid/],
  ['cassandra://a b/k', /host 1 is invalid/],
  ['cassandra://::1/k', /host 1 is invalid/],
  ['cassandra://db:0/k', /invalid port/],
  ['cassandra://db:65536/k', /invalid port/],
  ['cassandra://db/my-space', /keyspace is not 1 to 48/],
  ['cassandra://db/k/more', /keyspace is not 1 to 48/],
  [`cassandra://db/${'k'.repeat(49)}`, /keyspace is not 1 to 48/],
  ['cassandra://db/system_auth', /Cassandra's own/],
  ['cassandra://role:@db/k', /after the user but no password/],
  ['cassandra://role:s3/cr@db/k?dc=a', /contains a "\/": write %2F/],
  ['cassandra://:secret@db/k', /no user before it/],
  ['cassandra://role:100%@db/k', /"%" that does not begin an encoded/],
  ['cassandra://db/k?dc=', /data center is empty/],
  ['cassandra://db/k?dc=a&dc=b', /more than one data center/],
  ['cassandra://db/k?datacenter=a', /only dc is allowed/],
  ['cassandra://role:pa?ssword@db/k', /write %3F for a \? in a user or password/],
])('%s is refused', (url, problem) => {
  const faults = urlFaults(url)
  expect(faults.map(({ problem }) => problem).join('\n')).toMatch(problem)
  expect(() => readServerUrl(url)).toThrow(faults[0]!.problem)
})

test('all problems are reported at once', () => expect(urlFaults('cassandra://db:0,?dc=&x=1')).toHaveLength(5))

test.each(['pa?S3cr3t', 'S3cr?S3cr3t=1&S3cr3t', '?S3cr3t@S3cr3t'])('nothing after the "?" of the password %s is quoted', password => {
  const problems = urlFaults(`cassandra://role:${password}@host/k`).map(({ problem }) => problem)
  expect(problems.join()).toContain('%3F')
  expect(problems.join()).not.toMatch(/S3cr/)
})

test('no problem contains a part of the password, wherever the URL is wrong', () => {
  const secret = fc
    .tuple(fc.stringMatching(/^[A-Za-z0-9%@:/?=&,]{0,9}$/), fc.stringMatching(/^[A-Za-z0-9%@:/?=&,]{6,20}$/))
    .map(([before, behind]) => `${before}S3cr3t${behind}`)
  fc.assert(
    fc.property(secret, fc.string(), (password, rest) => {
      for (const { problem } of urlFaults(`cassandra://role:${password}@host/${rest.replaceAll(/S3cr3t/g, '')}`)) {
        expect(problem).not.toContain('S3cr3t')
      }
    }),
  )
})

test('encoded user and password are decoded', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: 'grapheme' }), fc.string({ minLength: 1, unit: 'grapheme' }), (user, password) => {
      const url = `cassandra://${encodeURIComponent(user)}:${encodeURIComponent(password)}@db/k`
      expect(readServerUrl(url)).toMatchObject({ user, password, contactPoints: ['db:9042'], keyspace: 'k' })
    }),
  )
})

test('the passwords of the URL and of the option are listed by option name', () => {
  const options = optionsFor('db:9042', { url: 'cassandra://role:one@db/k', password: 'two' })
  expect(secretsOf(options)).toEqual({ 'store.url': 'one', 'store.password': 'two' })
  expect(secretsOf(optionsFor('db:9042'))).toEqual({ 'store.url': undefined, 'store.password': undefined })
})
