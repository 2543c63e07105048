// The query string before it is decoded.

import { expect, test } from 'vitest'
import { checkEscapes, dottedSubtopic, escapeFaults, furtherOn } from '../../readers/query-text.ts'

test.each([
  '/messages',
  '/messages?',
  '/messages?name=a%20b+c&unit=%C2%B0C',
  '/messages?name=%F0%9F%98%80&vs=100%25',
  '/messages?name=a?b#c',
  '/%ff?name=a',
])('%s can be decoded', url => {
  expect(escapeFaults(url)).toEqual([])
})

test.each([
  ['/messages?name=100%', '/query/name', /% that begins no character.*%25/],
  ['/messages?limit=1&name=%zz', '/query/name', /% that begins no character/],
  ['/messages?name=%E0%A4', '/query/name', /% that begins no character/],
  ['/messages?name=%ED%A0%80', '/query/name', /% that begins no character/],
  ['/messages?na%me=a', '/query/na%me', /% that begins no character/],
  ['/messages?payload.a/b=%', '/query/payload.a~1b', /% that begins no character/],
])('%s is a fault of %s', (url, pointer, detail) => {
  expect(escapeFaults(url)).toEqual([{ pointer, detail: expect.stringMatching(detail) }])
})

test.each([
  ['/a/messages?subtopic=b/c%2Fd%2fe&name=f/g', '/a/messages?subtopic=b.c.d.e&name=f/g'],
  ['/a/messages?name=f/g&subtopic=b/c', '/a/messages?name=f/g&subtopic=b.c'],
  ['/a/messages?xsubtopic=b/c', '/a/messages?xsubtopic=b/c'],
  ['/a/messages?name=a/b', '/a/messages?name=a/b'],
  ['/a/messages?name=a?subtopic=b/c', '/a/messages?name=a?subtopic=b/c'],
])('a subtopic with slashes is written with dots: %s', (url, dotted) => {
  expect(dottedSubtopic(url)).toBe(dotted)
})

test('the way further on is the same question but for its place', () => {
  expect(furtherOn('/a/messages', { offset: 10 })).toBe('?offset=10')
  expect(furtherOn('/a/messages?offset=5&name=b', { cursor: 'xyz' })).toBe('?name=b&cursor=xyz')
  expect(furtherOn('/a/messages?cursor=abc&limit=2', { cursor: 'xyz' })).toBe('?limit=2&cursor=xyz')
})

test('the way further on keeps the path that the client knows, also one that a proxy takes away (RFC 3986 §5.2)', () => {
  const next = new URL(furtherOn('/channels/c/messages?limit=2', { offset: 2 }), 'https://example.org/iot/channels/c/messages?limit=2')
  expect(next.href).toBe('https://example.org/iot/channels/c/messages?limit=2&offset=2')
})

test('a question mark or a number sign behind the first is a character like any other', () => {
  expect(furtherOn('/a/messages?name=a?b&limit=2', { cursor: 'xyz' })).toBe('?name=a%3Fb&limit=2&cursor=xyz')
  expect(furtherOn('/a/messages#name=a?b&limit=2', { cursor: 'xyz' })).toBe('?name=a%3Fb&limit=2&cursor=xyz')
})

test('nothing of the question leaves the brackets of a Link', () => {
  expect(furtherOn('/a/messages?name=>;rel="x"%0d%0a', { offset: 1 })).not.toMatch(/[>"\r\n]/)
})

test('a request whose query cannot be decoded is refused before anybody reads it', async () => {
  await expect(checkEscapes({ url: '/messages?name=%zz' })).rejects.toMatchObject({
    code: 'malformed_request',
    faults: [{ pointer: '/query/name' }],
  })
  await expect(checkEscapes({ url: '/messages?name=%20' })).resolves.toBeUndefined()
})
