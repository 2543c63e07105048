// The query string before it is decoded.

import { expect, test } from 'vitest'
import { checkEscapes, dottedSubtopic, escapeFaults, furtherOn } from '../../../readers/request/query-text.ts'

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
  ['/messages?name=100%', '/query/name', /% that does not start a UTF-8 character.*%25/],
  ['/messages?limit=1&name=%zz', '/query/name', /% that does not start a UTF-8 character/],
  ['/messages?name=%E0%A4', '/query/name', /% that does not start a UTF-8 character/],
  ['/messages?name=%ED%A0%80', '/query/name', /% that does not start a UTF-8 character/],
  ['/messages?na%me=a', '/query/na%me', /% that does not start a UTF-8 character/],
  ['/messages?payload.a/b=%', '/query/payload.a~1b', /% that does not start a UTF-8 character/],
])('%s is an error in %s', (url, pointer, detail) => {
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

test('the link to the next page is the same request with another position', () => {
  expect(furtherOn('/a/messages', { offset: 10 })).toBe('?offset=10')
  expect(furtherOn('/a/messages?offset=5&name=b', { cursor: 'xyz' })).toBe('?name=b&cursor=xyz')
  expect(furtherOn('/a/messages?cursor=abc&limit=2', { cursor: 'xyz' })).toBe('?limit=2&cursor=xyz')
})

test("the link to the next page keeps the client's path, even if a proxy removes part of it (RFC 3986 §5.2)", () => {
  const next = new URL(furtherOn('/channels/c/messages?limit=2', { offset: 2 }), 'https://example.org/iot/channels/c/messages?limit=2')
  expect(next.href).toBe('https://example.org/iot/channels/c/messages?limit=2&offset=2')
})

test('a question mark or a number sign after the first is an ordinary character', () => {
  expect(furtherOn('/a/messages?name=a?b&limit=2', { cursor: 'xyz' })).toBe('?name=a%3Fb&limit=2&cursor=xyz')
  expect(furtherOn('/a/messages#name=a?b&limit=2', { cursor: 'xyz' })).toBe('?name=a%3Fb&limit=2&cursor=xyz')
})

test('no part of the request breaks out of the brackets of a Link', () => {
  expect(furtherOn('/a/messages?name=>;rel="x"%0d%0a', { offset: 1 })).not.toMatch(/[>"\r\n]/)
})

test('a request whose query cannot be decoded is refused before it is used', async () => {
  await expect(checkEscapes({ url: '/messages?name=%zz' })).rejects.toMatchObject({
    code: 'malformed_request',
    faults: [{ pointer: '/query/name' }],
  })
  await expect(checkEscapes({ url: '/messages?name=%20' })).resolves.toBeUndefined()
})
