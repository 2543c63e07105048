// The URL of a database server: its password, and its faults before any connection.

import { expect, test } from 'vitest'
import { databaseUrlFaults, passwordOf } from '../../database/database-url.ts'

test('the password of a URL is decoded', () => {
  expect(passwordOf('postgres://user:p%40ss@host/db')).toBe('p@ss')
  expect(passwordOf('postgres://user@host/db')).toBeUndefined()
  expect(passwordOf('no URL')).toBeUndefined()
})

test('a password in the query takes precedence, as in the driver', () => {
  expect(passwordOf('postgres://host/db?user=me&password=p%40ss')).toBe('p@ss')
  expect(passwordOf('postgres://user:other@host/db?password=this')).toBe('this')
  expect(passwordOf('postgres://user:other@host/db?password=')).toBe('other')
})

test('a password with a % that starts no escape does not throw', () => {
  expect(passwordOf('postgres://user:100%@host/db')).toBe('100%')
  expect(passwordOf('postgres://host/db?password=100%')).toBe('100%')
})

test.each([
  ['postgres://user:100%@host/db', 'its password contains a % that is not an escape: write %25'],
  ['postgres://user:%ff@host/db', 'its password contains a % that is not an escape: write %25'],
  ['postgres://us%er:word@host/db', 'its user contains a % that is not an escape: write %25'],
  ['postgres://user:word@host/d%b', 'its database contains a % that is not an escape: write %25'],
  ['postgres://host/db?password=100%', 'its query contains a % that is not an escape: write %25'],
  ['postgres://user:word@[/db', 'cannot be read: give a URL such as postgres://user:password@host:5432/database'],
])('%s is a fault', (url, problem) => {
  expect(databaseUrlFaults('database.url', url)).toEqual([{ place: 'database.url', problem }])
})

test('a valid URL has no faults', () => {
  expect(databaseUrlFaults('database.url', 'postgres://us%65r:p%40%25@host:5432/d%20b?sslmode=require&password=%25')).toEqual([])
})
