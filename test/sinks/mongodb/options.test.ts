// What is wrong with a URL, and what in it is secret.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { secretsOf, urlFaults } from '../../../sinks/mongodb/options.ts'
import { optionsOf } from './store.ts'

const problems = (url: string): string =>
  urlFaults(url)
    .map(({ problem }) => problem)
    .join('; ')

test.each([
  'mongodb://localhost/sluice',
  'mongodb://127.0.0.1:27017/sluice',
  'mongodb://[::1]:27017/sluice',
  'mongodb://user:pass%40word@one:27017,two:27018,three/sluice?replicaSet=rs0&authSource=admin',
  'mongodb+srv://user@cluster0.example.net/sluice?retryWrites=true&w=majority',
])('accepts %s', url => {
  expect(urlFaults(url)).toEqual([])
})

test.each([
  ['mongodb://localhost', /no database/],
  ['mongodb://localhost/', /no database/],
  ['mongodb://localhost:27017?tls=true', /no database/],
  ['mongodb://localhost/admin', /its database has an invalid name/],
  ['mongodb://localhost/a.b', /its database has an invalid name/],
  [`mongodb://localhost/${'x'.repeat(64)}`, /its database has an invalid name/],
  ['mongodb:///sluice', /no host/],
  ['mongodb://localhost:0/sluice', /hosts is invalid.*port from 1 to 65535/],
  ['mongodb://localhost:65536/sluice', /port from 1 to 65535/],
  ['mongodb://one,/sluice', /hosts is invalid/],
  ['mongodb+srv://cluster0.example.net:27017/sluice', /no port/],
  ['mongodb+srv://one,two/sluice', /one host/],
  ['postgres://localhost/sluice', /it is invalid: write/],
  ['mongodb://user:50%off@localhost/sluice', /write "%25" for a percent sign/],
  ['mongodb://user:1/off@localhost/sluice', /in a password write/],
  ['mongodb://user:1?off@localhost/sluice', /in a password write/],
])('says what is wrong with %s', (url, says) => {
  expect(problems(url)).toMatch(says)
})

test('the sentences contain no secrets', () => {
  const part = fc.string({ unit: fc.constantFrom('/', '@', ':', '?', '#', '%', ',', 'q', '7'), minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(part, part, fc.constantFrom('', '/', '/sluice', '/admin'), (before, after, database) => {
      const secret = `${before}s3cret${after}`
      expect(problems(`mongodb://user:${secret}@localhost:99999${database}`)).not.toContain('s3cret')
    }),
  )
})

test('the secrets are the passwords of the URL and of the options', () => {
  const secretOf = (url: string, password?: string): unknown => secretsOf(optionsOf(url, password === undefined ? {} : { password }))
  expect(secretOf('mongodb://user:pass%40word@localhost/sluice')).toEqual({ 'store.url': 'pass@word', 'store.password': undefined })
  expect(secretOf('mongodb://localhost/sluice', 'changeme')).toEqual({ 'store.url': undefined, 'store.password': 'changeme' })
  expect(secretOf('mongodb://user@localhost/sluice')).toEqual({ 'store.url': undefined, 'store.password': undefined })
})
