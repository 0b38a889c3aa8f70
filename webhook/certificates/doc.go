// Package certificates holds the certificates that the webhook serves with, and the CAs by which API servers trust them: from
// files that somebody else renews (Files), or made and rotated by this process itself (SelfSigned).
//
// The one invariant: API servers are never shown a certificate that they cannot trust yet. When the CA changes,
//
//  1. the caBundle of the registration gets the new CA beside the old one,
//  2. Published confirms that it has both,
//  3. after a moment in which API servers see the change, the new certificate is served,
//  4. after a grace period, for replicas that still serve the old certificate, the old CA leaves the bundle.
//
// Nothing here talks to the API server: the registrar of package webhook writes the bundle.
package certificates
