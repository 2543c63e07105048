// What is read of a cluster's URL, and what is said of one that is wrong, without its secrets.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { secretsOf, urlFaults } from '../../../sinks/cassandra/options.ts'
import { readServerUrl } from '../../../sinks/cassandra/server-url.ts'
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
  ['cassandra://db', /names no keyspace/],
  ['cassandra://db/', /names no keyspace/],
  ['cassandra:///k', /host 1 of it is none/],
  ['cassandra://a,,b/k', /host 2 of it is none/],
  ['cassandra://a b/k', /host 1 of it is none/],
  ['cassandra://::1/k', /host 1 of it is none/],
  ['cassandra://db:0/k', /port that cannot be/],
  ['cassandra://db:65536/k', /port that cannot be/],
  ['cassandra://db/my-space', /keyspace is not 1 to 48/],
  ['cassandra://db/k/more', /keyspace is not 1 to 48/],
  [`cassandra://db/${'k'.repeat(49)}`, /keyspace is not 1 to 48/],
  ['cassandra://db/system_auth', /Cassandra's own/],
  ['cassandra://role:@db/k', /no password after it/],
  ['cassandra://role:s3/cr@db/k?dc=a', /holds a "\/": write %2F/],
  ['cassandra://:secret@db/k', /no user before it/],
  ['cassandra://role:100%@db/k', /"%" that begins no encoded/],
  ['cassandra://db/k?dc=', /data center is empty/],
  ['cassandra://db/k?dc=a&dc=b', /twice/],
  ['cassandra://db/k?datacenter=a', /parameter other than dc/],
  ['cassandra://role:pa?ssword@db/k', /write %3F for a \? in a user or password/],
])('%s is refused', (url, problem) => {
  const faults = urlFaults(url)
  expect(faults.map(({ problem }) => problem).join('\n')).toMatch(problem)
  expect(() => readServerUrl(url)).toThrow(faults[0]!.problem)
})

test('all faults are said at once', () => expect(urlFaults('cassandra://db:0,?dc=&x=1')).toHaveLength(5))

test.each(['pa?S3cr3t', 'S3cr?S3cr3t=1&S3cr3t', '?S3cr3t@S3cr3t'])('of the password %s nothing is said behind its "?"', password => {
  const problems = urlFaults(`cassandra://role:${password}@host/k`).map(({ problem }) => problem)
  expect(problems.join()).toContain('%3F')
  expect(problems.join()).not.toMatch(/S3cr/)
})

test('no fault holds a part of the password, wherever the URL is wrong', () => {
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

test('what is written encoded is read again', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: 'grapheme' }), fc.string({ minLength: 1, unit: 'grapheme' }), (user, password) => {
      const url = `cassandra://${encodeURIComponent(user)}:${encodeURIComponent(password)}@db/k`
      expect(readServerUrl(url)).toMatchObject({ user, password, contactPoints: ['db:9042'], keyspace: 'k' })
    }),
  )
})

test('the passwords of the URL and of the option are told by their names', () => {
  const options = optionsFor('db:9042', { url: 'cassandra://role:one@db/k', password: 'two' })
  expect(secretsOf(options)).toEqual({ 'store.url': 'one', 'store.password': 'two' })
  expect(secretsOf(optionsFor('db:9042'))).toEqual({ 'store.url': undefined, 'store.password': undefined })
})
