// DER and PEM of a CRL, and how often they are computed.

import { expect, test } from 'vitest'
import { openCrlForms } from '../../../control-plane/certificates/routes.ts'

test('both forms of the same bytes are computed once, and other bytes get other forms', () => {
  const formsOf = openCrlForms()
  const { der, pem } = formsOf(Buffer.from('first'))
  expect(pem.bytes.toString()).toBe('-----BEGIN X509 CRL-----\nZmlyc3Q=\n-----END X509 CRL-----\n')
  // As from a server elsewhere: the same bytes, but not the same object.
  const again = formsOf(Buffer.from('first'))
  expect(again.der).toBe(der)
  expect(again.pem).toBe(pem)
  const next = formsOf(Buffer.from('second'))
  expect(new Set([der.etag, pem.etag, next.der.etag, next.pem.etag]).size).toBe(4)
})
