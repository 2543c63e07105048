// The client address of a request: forwarded addresses count only from trusted proxies, so that clients cannot choose theirs.

import { expect, test } from 'vitest'
import { clientAddressOf, networkOf, openClientAddresses } from '../../../http/requests/client-address.ts'
import { startServer } from '../test-server.ts'

const proxies = ['10.0.0.0/8', '192.0.2.7', '2001:db8:1::/48']

function addressOf(peer: string | undefined, headers: Record<string, string>, trusted: readonly string[] = proxies): string {
  return openClientAddresses(trusted)({ headers, socket: { remoteAddress: peer } as never })
}
const xff = (value: string): Record<string, string> => ({ 'x-forwarded-for': value })
const forwarded = (value: string): Record<string, string> => ({ forwarded: value })

test.each<[string, string, Record<string, string>, string]>([
  ['without headers', '10.0.0.1', {}, '10.0.0.1'],
  ['not from a trusted proxy', '203.0.113.9', xff('198.51.100.1'), '203.0.113.9'],
  ['one entry', '10.0.0.1', xff('198.51.100.1'), '198.51.100.1'],
  ['what a client wrote before its proxy', '10.0.0.1', xff('1.1.1.1, 198.51.100.1'), '198.51.100.1'],
  ['a chain of trusted proxies', '10.0.0.1', xff('1.1.1.1, 198.51.100.1, 192.0.2.7 ,10.9.9.9'), '198.51.100.1'],
  ['trusted proxies alone', '10.0.0.1', xff('10.0.0.3, 10.0.0.2'), '10.0.0.3'],
  ['an invalid entry', '10.0.0.1', xff('198.51.100.1, unknown, 10.0.0.2'), '10.0.0.2'],
  ['an empty entry', '10.0.0.1', xff('198.51.100.1,'), '10.0.0.1'],
  ['an entry with a port', '10.0.0.1', xff('198.51.100.1:4711'), '198.51.100.1'],
  ['IPv6 in each form', '10.0.0.1', xff('[2001:DB8::0017]:4711'), '2001:db8::17'],
  ['a trusted IPv6 proxy', '2001:db8:1::5', xff('2001:db8::17'), '2001:db8::17'],
  ['IPv4 over an IPv6 socket', '::ffff:10.0.0.1', xff('::ffff:198.51.100.1'), '198.51.100.1'],
  ['an address of too many digits', '10.0.0.1', xff('198.51.100.1111'), '10.0.0.1'],
  ['Forwarded', '10.0.0.1', forwarded('for=1.1.1.1, for=198.51.100.1;proto=http;by=10.0.0.1'), '198.51.100.1'],
  ['Forwarded, IPv6 with a port', '10.0.0.1', forwarded('For="[2001:db8::17]:4711"'), '2001:db8::17'],
  ['Forwarded through two', '10.0.0.1', forwarded('for=198.51.100.1 ; host="a,b\\"c" , proto=https;for=10.0.0.2'), '198.51.100.1'],
  ['Forwarded, unknown', '10.0.0.1', forwarded('for=198.51.100.1, for=unknown, for=10.0.0.2'), '10.0.0.2'],
  ['Forwarded, obfuscated', '10.0.0.1', forwarded('for=198.51.100.1, for=_hidden'), '10.0.0.1'],
  ['Forwarded, IPv6 without quotes', '10.0.0.1', forwarded('for=2001:db8::17'), '10.0.0.1'],
  ['Forwarded, IPv6 without brackets', '10.0.0.1', forwarded('for="2001:db8::17"'), '10.0.0.1'],
  ['Forwarded, a quote that does not end', '10.0.0.1', forwarded('for="x, for=198.51.100.1'), '10.0.0.1'],
  ['Forwarded, thousands of blanks', '10.0.0.1', forwarded(`for=198.51.100.1${' '.repeat(15_000)}x`), '10.0.0.1'],
  ['Forwarded, for twice', '10.0.0.1', forwarded('for=198.51.100.1;for=198.51.100.2'), '10.0.0.1'],
  ['Forwarded without for', '10.0.0.1', forwarded('for=198.51.100.1, proto=http'), '10.0.0.1'],
  ['both, agreeing', '10.0.0.1', { ...xff('198.51.100.1'), ...forwarded('for="198.51.100.1:80"') }, '198.51.100.1'],
  ['both, disagreeing', '10.0.0.1', { ...xff('198.51.100.1'), ...forwarded('for=198.51.100.2') }, '10.0.0.1'],
])('%s', (_name, peer, headers, address) => {
  expect(addressOf(peer, headers)).toBe(address)
})

test('by default no proxy is trusted, and a closed connection has no address', () => {
  expect(addressOf('127.0.0.1', xff('198.51.100.1'), [])).toBe('127.0.0.1')
  expect(addressOf(undefined, xff('198.51.100.1'))).toBe('')
})

test.each(['proxy.example', '10.0.0.0/33', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0', '', 'fe80::1%eth0', '2001:db8::/129'])(
  '%j is refused with its text',
  entry => {
    expect(() => openClientAddresses(['10.0.0.1', entry])).toThrow(`"${entry}" is neither an address nor a network`)
  },
)

test.each([
  ['198.51.100.1', '198.51.100.1'],
  ['2001:db8::17', '2001:db8:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['::1', '0:0:0:0::/64'],
  ['2001:db8:1:2::', '2001:db8:1:2::/64'],
  ['64:ff9b::c633:6401', '198.51.100.1'],
  ['64:ff9b::1', '0.0.0.1'],
  ['64:ff9b:1::c633:6401', '64:ff9b:1:0::/64'],
])('%s counts as %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})

test('the largest network that a site has is a /48', () => {
  expect(networkOf('2001:db8:1:2:3:4:5:6', 48)).toBe('2001:db8:1::/48')
  expect(networkOf('2001:db8::17', 48)).toBe('2001:db8:0::/48')
  expect(networkOf('198.51.100.1', 48)).toBe('198.51.100.1')
})

test('a route gets the client address behind trusted proxies', async () => {
  const server = await startServer({ trustedProxies: ['127.0.0.1'] }, app => {
    app.get('/from', async request => ({ address: clientAddressOf(request) }))
  })
  expect((await server.ask('/from', { headers: xff('198.51.100.1') })).body).toEqual({ address: '198.51.100.1' })
  expect(server.lines()).toEqual([])
  await server.app.close()
})

test('the address of a request is found once, whatever asks for it', async () => {
  const server = await startServer({ trustedProxies: ['127.0.0.1'] }, app => {
    app.get('/from', async request => {
      const first = clientAddressOf(request)
      request.raw.headers['x-forwarded-for'] = '198.51.100.2'
      return { addresses: [first, clientAddressOf(request)] }
    })
  })
  for (const address of ['198.51.100.1', '198.51.100.3'])
    expect((await server.ask('/from', { headers: xff(address) })).body).toEqual({ addresses: [address, address] })
  await server.app.close()
})

test('an untrusted peer that sends these headers is logged once, without their content', async () => {
  const server = await startServer({}, app => {
    app.get('/from', async request => ({ address: clientAddressOf(request) }))
  })
  await server.ask('/from')
  expect(server.lines()).toEqual([])
  for (const headers of [forwarded('for=198.51.100.1'), xff('198.51.100.1'), xff('198.51.100.2')]) await server.ask('/from', { headers })
  expect(server.lines()).toMatchObject([{ level: 'warn', peer: '127.0.0.1', msg: expect.any(String) as string }])
  expect(server.lines()[0]!.msg).toMatch(/http\.trusted_proxies \(SVC_HTTP_TRUSTED_PROXIES\).*count as one client/)
  expect(JSON.stringify(server.lines())).not.toContain('198.51.100')
  await server.app.close()
})
